package shale

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/vfs"
)

// Puts and deletions show in lookups and scans from the memtable, from a table, and after a
// full compaction, which leaves no tombstone.
func TestPutGetDelete(t *testing.T) {
	db := openTest(t, small())
	mustPut(t, db, "a", "1")
	mustPut(t, db, "b", "2")
	mustPut(t, db, "", "empty key")
	mustPut(t, db, "c", "")
	check := func() {
		t.Helper()
		wantGet(t, db, "a", "1", true)
		wantGet(t, db, "b", "2", true)
		wantGet(t, db, "", "empty key", true)
		wantGet(t, db, "c", "", true)
		wantGet(t, db, "d", "", false)
		if got, want := scanAll(t, db, Range{}), "=empty key a=1 b=2 c="; got != want {
			t.Errorf("Scan = %q, want %q", got, want)
		}
	}
	check()
	mustFlush(t, db)
	check()
	mustDelete(t, db, "b")
	mustPut(t, db, "a", "3")
	for range 2 {
		wantGet(t, db, "a", "3", true)
		wantGet(t, db, "b", "", false)
		if got, want := scanAll(t, db, Range{}.Reversed()), "c= a=3 =empty key"; got != want {
			t.Errorf("reverse Scan = %q, want %q", got, want)
		}
		mustFlush(t, db)
	}
	if err := db.Compact(context.Background(), Range{}); err != nil {
		t.Fatal(err)
	}
	wantGet(t, db, "a", "3", true)
	wantGet(t, db, "b", "", false)
	for _, table := range db.Tables() {
		if table.Tombstones != 0 {
			t.Errorf("table %d still has %d tombstones after a full compaction", table.Number, table.Tombstones)
		}
	}
}

// Lookups and scans find the last value of each key in a store of several levels, while
// compactions run, after them, and after the store was opened again.
func TestManyLevels(t *testing.T) {
	testenv.SkipRace(t)
	const n = 20000
	opts := small()
	db := openTest(t, opts)
	for round := range 3 {
		fill(t, db, n, round)
	}
	mustFlush(t, db)
	check := func() {
		t.Helper()
		for i := 0; i < n; i += 37 {
			wantGet(t, db, fmt.Sprintf("key%06d", i), fmt.Sprintf("value %d of round 2", i), true)
			wantGet(t, db, fmt.Sprintf("key%06dx", i), "", false)
		}
		i := 0
		for e, err := range db.Scan(Range{}) {
			if err != nil {
				t.Fatal(err)
			}
			if want := fmt.Sprintf("key%06d", i); string(e.Key) != want {
				t.Fatalf("Scan: entry %d is %q, want %q", i, e.Key, want)
			}
			i++
		}
		if i != n {
			t.Errorf("Scan: %d entries, want %d", i, n)
		}
	}
	check()
	waitIdle(t, db)
	// The compactions may have left one level. One more run is one above it.
	for i := 0; i < n; i += 500 {
		mustPut(t, db, fmt.Sprintf("key%06d", i), fmt.Sprintf("value %d of round 2", i))
	}
	mustFlush(t, db)
	levels := 0
	for _, l := range db.Metrics().Levels {
		if l.Tables > 0 {
			levels++
		}
	}
	if levels < 2 {
		t.Errorf("the tree has %d levels:\n%v", levels, db.Metrics())
	}
	check()
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	db = openTest(t, opts)
	check()
}

// After Close every call returns ErrClosed, and nothing panics.
func TestClose_EveryCallAfterwards(t *testing.T) {
	db := openTest(t, small())
	fill(t, db, 3000, 0)
	s, err := db.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	it := db.NewIterator(Range{})
	if !it.Next() {
		t.Fatal(it.Err())
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	k := []byte("key000001")
	errorOf := func(_ any, err error) error { return err }
	scanError := func(r Reader) error {
		for _, err := range r.Scan(Range{}) {
			return err
		}
		return nil
	}
	for name, err := range map[string]error{
		"Get":           errorOf(db.Get(k)),
		"AppendValue":   errorOf(db.AppendValue(nil, k)),
		"ViewValue":     db.ViewValue(k, func([]byte) error { return nil }),
		"Has":           errorOf(db.Has(k)),
		"Scan":          scanError(db),
		"Put":           db.Put(k, k),
		"Delete":        db.Delete(k),
		"Write":         db.Write(ctx, &Batch{}),
		"PutIfAbsent":   errorOf(db.PutIfAbsent(k, k)),
		"GetMany":       db.GetMany([][]byte{k}, func(int, []byte, bool) error { return nil }),
		"Snapshot":      errorOf(db.Snapshot()),
		"Sync":          db.Sync(),
		"Flush":         db.Flush(ctx),
		"Compact":       db.Compact(ctx, Range{}),
		"Checkpoint":    db.Checkpoint("copy"),
		"Verify":        db.Verify(ctx),
		"Resume":        db.Resume(),
		"Explain":       errorOf(db.Explain(k)),
		"Close":         db.Close(),
		"Snapshot.Get":  errorOf(s.Get(k)),
		"Snapshot.Has":  errorOf(s.Has(k)),
		"Snapshot.Scan": scanError(s),
	} {
		if !errors.Is(err, ErrClosed) {
			t.Errorf("%s after Close: %v, want ErrClosed", name, err)
		}
	}
	if it.Next() || !errors.Is(it.Err(), ErrClosed) {
		t.Errorf("Next after Close: %v, want ErrClosed", it.Err())
	}
	if it.First() || it.Last() || it.SeekGE(k) || it.SeekLT(k) || it.Prev() || it.Valid() {
		t.Error("an iterator of a closed store moves")
	}
	if err := it.Close(); err != nil {
		t.Errorf("Iterator.Close: %v", err)
	}
	if err := it.Close(); err != nil {
		t.Errorf("second Iterator.Close: %v", err)
	}
	if !db.MayContain(k) {
		t.Error("MayContain on a closed store claims to know")
	}
	out := make([]bool, 2)
	if db.MayContainMany([][]byte{k, []byte("nope")}, out); !out[0] || !out[1] {
		t.Error("MayContainMany on a closed store claims to know")
	}
	_, _ = db.Tables(), db.Metrics().String()
	_ = s.Close()
}

// A store in memory works in a bubble of testing/synctest and follows the bubble's clock, so
// that users can test with it. Pools that all stores share must not carry anything of one
// bubble into the next.
func TestOpen_InSynctestBubbles(t *testing.T) {
	for range 3 {
		synctest.Test(t, func(t *testing.T) {
			mem := vfs.NewMem()
			db, err := Open("db", &Options{FS: mem, MemtableSize: 4 << 10, Durability: SyncPeriodic, SyncEvery: time.Hour})
			if err != nil {
				t.Fatal(err)
			}
			var wg sync.WaitGroup
			for g := range 8 {
				wg.Go(func() {
					for i := range 50 {
						mustPut(t, db, fmt.Sprintf("key%d-%d", g, i), "value")
						_, _ = db.Has([]byte("absent"))
					}
				})
			}
			wg.Wait()
			mustPut(t, db, "last", "value")
			w := db.logs.Current()
			if w.Synced() == w.Len() {
				t.Error("the log was synced before its time")
			}
			time.Sleep(time.Hour + time.Minute) // of the bubble
			synctest.Wait()
			if w.Synced() != w.Len() {
				t.Errorf("%d bytes of the log, %d synced an hour later", w.Len(), w.Synced())
			}
			closeTest(t, db)
		})
	}
}
