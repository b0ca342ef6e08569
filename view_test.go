package shale

import (
	"fmt"
	"strings"
	"testing"
)

// An iterator keeps the memory of its memtable from being used again, however many memtables were
// flushed since. All memory is freed when the store is closed.
func TestView_IteratorKeepsItsMemtable(t *testing.T) {
	const size, n = 2 << 20, 1500
	before := besideHeap()
	db := mustOpen(t, t.TempDir(), &Options{MemtableSize: size, Durability: SyncManual, CacheSize: -1})
	fill := func(c byte) {
		for i := range n {
			mustPut(t, db, fmt.Sprintf("key%08d", i), strings.Repeat(string(c), 1000))
		}
	}
	fill('a')
	it := db.NewIterator(Range{})
	snap, err := db.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	for c := byte('b'); c < 'h'; c++ {
		fill(c)
	}
	want := strings.Repeat("a", 1000)
	got := 0
	for ok := it.First(); ok; ok = it.Next() {
		if string(it.Value()) != want {
			t.Fatalf("%s is %.10q", it.Key(), it.Value())
		}
		got++
	}
	if got != n || it.Err() != nil {
		t.Errorf("%d entries, %v", got, it.Err())
	}
	for i := range n {
		err := snap.ViewValue(fmt.Appendf(nil, "key%08d", i), func(value []byte) error {
			if string(value) != want {
				t.Errorf("key %d of the snapshot is %.10q", i, value)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := it.Close(); err != nil {
		t.Error(err)
	}
	if err := snap.Close(); err != nil {
		t.Error(err)
	}
	closeTest(t, db)
	if left := besideHeap() - before; left != 0 {
		t.Errorf("%d bytes are left", left)
	}
}
