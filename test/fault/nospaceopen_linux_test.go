package fault

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/test/harness"
	"github.com/shaledb/shale/vfs"
)

// fullOpens are the figures of TestNoSpace_Open.
type fullOpens struct {
	opens, opened, written int
	slowest                time.Duration
}

// On a disk without room, or with room for a part of what it does, Open gives a
// handle or an error that says so, at once, and a read-only handle needs no
// room at all.
func TestNoSpace_Open(t *testing.T) {
	testenv.CheckLeaks(t)
	seed, long := testenv.Seed(t), testenv.Long(t)/4
	disk := mountTmpfs(t, 24)
	var f fullOpens
	begin := time.Now()
	for round := uint64(0); round < 2 || time.Since(begin) < long; round++ {
		f.round(t, disk, rand.New(rand.NewPCG(seed, round)))
		if t.Failed() {
			t.FailNow()
		}
	}
	if f.opened == 0 || f.opened >= f.opens/2 {
		t.Errorf("%d of %d Opens for writing had room, want some of them", f.opened, f.opens/2)
	}
	t.Logf("%d opens on a full disk, the slowest in %v; %d for writing had room, %d for a write too",
		f.opens, f.slowest.Round(time.Microsecond), f.opened, f.written)
}

// round makes a store, and opens it with more and more room.
func (f *fullOpens) round(t *testing.T, disk *testMount, r *rand.Rand) {
	opts := harness.DrawOnDisk(r.Uint64(), r.Uint64N(4))
	s := harness.NewStream("a", r.Uint64(), 120)
	if err := s.Leave(disk.path("db"), opts, 50+r.IntN(300), r.IntN(2) == 0); err != nil {
		t.Fatal(err)
	}
	claim := harness.Claim{Base: s.Held}
	check := func(db *shale.DB) {
		t.Helper()
		found, err := harness.Read(db)
		if err == nil {
			_, err = claim.Check(found)
		}
		if err != nil {
			t.Errorf("%v; %s", err, harness.OptionsText(&opts))
		}
	}
	for _, left := range []int64{0, 4 << 10, 8 << 10, 16 << 10, 48 << 10, 512 << 10} {
		disk.fillTo(left)
		ro := opts
		ro.ReadOnly = true
		db, err := f.open(t, disk.path("db"), ro)
		if err != nil {
			t.Fatalf("%d bytes of room: Open read-only: %v", left, err)
		}
		check(db)
		harness.WantClose(t, db)
		if db, err = f.open(t, disk.path("db"), opts); err == nil {
			f.opened++
			check(db)
			w := marked(s.Write(s.N + len(claim.Commits) + 1))
			err = db.Write(context.Background(), w.Batch())
			if err == nil {
				f.written++
			}
			claim.Commits = append(claim.Commits, harness.Commit{Ops: w.Ops, Marker: w.Marker, Uncertain: err != nil})
			claim = claim.AllSafe()
			err = errors.Join(err, db.Close())
		}
		if err != nil && !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("%d bytes of room: %v, want ENOSPC; %s", left, err, harness.OptionsText(&opts))
		}
		disk.release()
	}
	db, err := shale.Open(disk.path("db"), &opts)
	if err != nil {
		t.Fatal(err)
	}
	check(db)
	harness.WantClose(t, db)
	if err := os.RemoveAll(disk.path("db")); err != nil {
		t.Fatal(err)
	}
}

// marked makes the write a synced one with a key of its own, which shows whether it is there.
func marked(w harness.Write) harness.Write {
	w.Durability = shale.SyncEach
	w.Marker = fmt.Sprintf("marker-%s", w.Ops[0].Value) // which is the write's number
	w.Ops = append(w.Ops, shale.Op{Kind: shale.OpPut, Key: []byte(w.Marker)})
	return w
}

// open opens the store and takes the time.
func (f *fullOpens) open(t *testing.T, dir string, opts shale.Options) (db *shale.DB, err error) {
	testenv.Within(t, 30*time.Second, "Open on a full disk", func() {
		began := time.Now()
		db, err = shale.Open(dir, &opts)
		f.slowest = max(f.slowest, time.Since(began))
	})
	f.opens++
	return db, err
}

// Pages of a mapping that the disk has no room for give the error of a full disk
// when they are written to, each time, and not a signal. When there is room
// again, another mapping of the file can be written to.
func TestNoSpace_Mapping(t *testing.T) {
	disk := mountTmpfs(t, 2)
	f, err := vfs.Default.Create(disk.path("sparse"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	const size = 1 << 20
	if err := f.Truncate(size); err != nil {
		t.Fatal(err)
	}
	disk.fillTo(32 << 10)
	page := make([]byte, os.Getpagesize())
	for _, want := range []error{syscall.ENOSPC, nil} {
		m, err := f.(vfs.Mapper).Map(size)
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for err == nil && n < size {
			_, err = m.WriteAt(page, int64(n))
			n += len(page)
		}
		if !errors.Is(err, want) || want != nil && (n < 32<<10 || n > 64<<10) {
			t.Errorf("after %d bytes: %v, want %v, after some 32 KiB", n, err, want)
		}
		if _, again := m.WriteAt(page, 0); again != err {
			t.Errorf("the next write: %v, want %v again", again, err)
		}
		if err := m.Unmap(); err != nil {
			t.Error(err)
		}
		disk.release()
	}
}
