package shale

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/vfs"
)

// Iterators of several views come and go while views are replaced. Each keeps the version and the
// memtables of its own view, and with the last iterator of a view they go.
func TestView_HeldByIterators(t *testing.T) {
	before := besideHeap()
	opts := small()
	opts.FS, opts.CompactionWorkers = vfs.NewMem(), -1
	db := openTest(t, opts)
	var its []*Iterator
	var states []string
	for round := range 6 {
		for _, key := range []string{"a", fmt.Sprintf("key%d", round), "z"} { // each table overlaps all others
			mustPut(t, db, key, fmt.Sprint(round))
		}
		for range 1 + round%2 {
			its = append(its, db.NewIterator(Range{}))
			states = append(states, scanAll(t, db, Range{}))
		}
		if round%3 < 2 {
			mustFlush(t, db)
		}
		if err := db.Compact(context.Background(), Range{}); err != nil {
			t.Fatal(err)
		}
	}
	tables := len(db.Inspect().Tables())
	if held := tablesOnDisk(t, db, db.fs); held <= tables {
		t.Fatalf("%d tables on disk, %d in the version: iterators hold none", held, tables)
	}
	for i, it := range its {
		got := ""
		for it.Next() {
			got += fmt.Sprintf("%s=%s ", it.Key(), it.Value())
		}
		if want := states[i]; strings.TrimSpace(got) != strings.TrimSpace(want) || it.Err() != nil {
			t.Errorf("iterator %d sees %q, %v; want %q", i, got, it.Err(), want)
		}
		if err := it.Close(); err != nil {
			t.Error(err)
		}
	}
	// Background work, such as fitting filters into memory, may hold a version for a moment.
	testenv.WaitFor(t, "the tables of closed iterators to be removed", func() bool { return tablesOnDisk(t, db, db.fs) == tables })
	if v := db.mems.View(); v.Pinned() {
		t.Error("the view is pinned without iterators")
	}
	closeTest(t, db)
	if left := besideHeap() - before; left != 0 {
		t.Errorf("%d bytes are left", left)
	}
}

// A store and an iterator that are dropped without Close, while a slice of the iterator is in use,
// leave the memory of the slice. If there is no iterator, the memory is freed.
func TestView_DroppedWithIterator(t *testing.T) {
	testenv.SkipRace(t) // package offheap allocates in the heap there
	for _, iterates := range []bool{false, true} {
		before := besideHeap()
		value := func() []byte {
			opts := &Options{FS: vfs.NewMem(), MemtableSize: 8 << 20, CacheSize: -1, Durability: SyncManual, CompactionWorkers: -1}
			db, err := Open("db", opts)
			if err != nil {
				t.Fatal(err)
			}
			for i := range 3000 {
				mustPut(t, db, fmt.Sprintf("key%08d", i), strings.Repeat("a", 1000))
			}
			var value []byte
			if iterates {
				it := db.NewIterator(Range{})
				if !it.Last() || !it.Prev() || !it.Next() { // back and forth, so that the value is not a copy
					t.Fatal(it.Err())
				}
				value = it.Value()
			}
			db.abandon()
			return value
		}()
		switch left := besideHeap() - before; {
		case iterates && left == 0:
			t.Error("the memory of a slice in use was freed")
		case iterates && string(value) != strings.Repeat("a", 1000):
			t.Errorf("the value has become %.10q", value)
		case !iterates && left != 0:
			t.Errorf("%d bytes are left of a store without readers", left)
		}
	}
}
