package bbolt

import (
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"sync/atomic"
	"testing"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/vfs"
	"github.com/shaledb/shale/vfs/faultfs"
)

var quiet = slog.New(slog.NewTextHandler(io.Discard, nil))

// A power cut at any operation leaves what was committed, whole transactions only; with NoSync, up to some point.
func TestCrash(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	configs := vfs.CrashConfigs(seed)
	cuts := 0
	for range 30 {
		mem := vfs.NewMem()
		noSync := random.IntN(3) == 0
		at, config := int64(30+random.IntN(200)), configs[random.IntN(len(configs))]
		var states []string                        // after each commit that has begun
		var acknowledged, least, most atomic.Int64 // commits; the others are bounds at the power cut
		var cut atomic.Pointer[vfs.Mem]
		disk := faultfs.New(mem, func(_ vfs.Op, _ string, n int64) error {
			if n == at {
				least.Store(acknowledged.Load())
				crashed := mem.Crash(config)
				most.Store(acknowledged.Load() + 1)
				cut.Store(crashed)
			}
			return nil
		})
		db := openIn(t, disk)
		db.NoSync = noSync
		states = append(states, dump(t, db, nil))
		for n := 0; cut.Load() == nil && n < 200; n++ {
			update(t, db, func(tx *Tx) {
				change(t, random, tx)
				states = append(states, dump(t, nil, tx))
			})
			acknowledged.Add(1)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		if cut.Load() == nil {
			continue // there were fewer operations
		}
		cuts++
		after := openIn(t, cut.Load())
		got, from := dump(t, after, nil), int(least.Load())
		if noSync {
			from = 0
		}
		found := false
		for i := from; i < len(states) && i <= int(most.Load()); i++ {
			found = found || states[i] == got
		}
		if !found {
			t.Errorf("NoSync %t: %d commits were acknowledged, and there is none of the states from then on:\n%s", noSync, least.Load(), got)
		}
		if err := after.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if cuts < 10 {
		t.Errorf("there were only %d power cuts", cuts)
	}
}

func openIn(t *testing.T, fs vfs.FS) *DB {
	t.Helper()
	db, err := Open("/db", 0, &Options{Store: &shale.Options{FS: fs, Logger: quiet, MemtableSize: 8 << 10}})
	if err != nil {
		t.Fatal(err)
	}
	return db
}

// change does a few random things.
func change(t *testing.T, random *rand.Rand, tx *Tx) {
	t.Helper()
	b := tx.Cursor().Bucket()
	for range 1 + random.IntN(6) {
		k := fmt.Append(nil, random.IntN(4))
		switch c := b.Bucket(k); {
		case c != nil && random.IntN(8) == 0:
			if err := b.DeleteBucket(k); err != nil {
				t.Fatal(err)
			}
		case c != nil:
			b = c
		default:
			created, err := b.CreateBucket(k)
			if err != nil {
				t.Fatal(err)
			}
			b = created
		}
		if b.in != nil {
			put(t, b, fmt.Sprint("v", random.IntN(5)), fmt.Sprint(random.Uint64()))
			if _, err := b.NextSequence(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// dump returns all that a database has, or that a transaction sees, and checks its structure.
func dump(t *testing.T, db *DB, tx *Tx) (text string) {
	t.Helper()
	if tx == nil {
		if err := db.View(func(tx *Tx) error { text = dump(t, nil, tx); return nil }); err != nil {
			t.Fatal(err)
		}
		return text
	}
	noErrors(t, tx.Check())
	return dumpBucket(tx.Cursor().Bucket())
}

func dumpBucket(b *Bucket) string {
	text := fmt.Sprintf("sequence %d\n", b.Sequence())
	_ = b.ForEach(func(k, v []byte) error { // nothing in it returns an error
		text += fmt.Sprintf("%s = %s\n", k, v)
		if v == nil {
			text += dumpBucket(b.Bucket(k)) + "end\n"
		}
		return nil
	})
	return text
}

// An error of the disk undoes the commit, and the database goes on when the disk does.
func TestCommit_Fails(t *testing.T) {
	disk := faultfs.New(vfs.NewMem(), nil)
	db := openIn(t, disk)
	update(t, db, func(tx *Tx) { create(t, tx.Cursor().Bucket(), "before") })
	id := lastID(t, db)
	disk.Inject(faultfs.FailFrom(1, io.ErrShortWrite, vfs.OpSync))
	called := false
	err := db.Update(func(tx *Tx) error {
		tx.OnCommit(func() { called = true })
		_, err := tx.CreateBucket([]byte("lost"))
		return err
	})
	if err == nil || called {
		t.Fatalf("a commit that failed gives %v, and OnCommit was called: %t", err, called)
	}
	if err := db.Update(func(tx *Tx) error { return nil }); err == nil {
		t.Error("a store that takes no writes begins transactions")
	}
	disk.Inject(nil)
	if err := db.Store().Resume(); err != nil {
		t.Fatal(err)
	}
	update(t, db, func(tx *Tx) {
		if tx.Bucket([]byte("lost")) != nil {
			t.Error("a commit that failed is visible")
		}
		create(t, tx.Cursor().Bucket(), "after")
		noErrors(t, tx.Check())
	})
	if now := lastID(t, db); now != id+1 {
		t.Errorf("the last transaction is %d, want %d", now, id+1)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

func lastID(t *testing.T, db *DB) (id int) {
	t.Helper()
	if err := db.View(func(tx *Tx) error { id = tx.ID(); return nil }); err != nil {
		t.Fatal(err)
	}
	return id
}
