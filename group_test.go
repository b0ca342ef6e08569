package shale

import (
	"fmt"
	"strings"
	"testing"

	"github.com/shaledb/shale/internal/offheap"
)

// TestMemory_FillStaysWithin fills many memtables one after the other, and looks
// at the memory beside the heap: that of three at most, and none once the store
// is closed.
func TestMemory_FillStaysWithin(t *testing.T) {
	const size = 4 << 20
	before := besideHeap()
	db := mustOpen(t, t.TempDir(), &Options{MemtableSize: size, Durability: SyncManual, CacheSize: -1})
	value := make([]byte, 1000)
	most := int64(0)
	n := 40_000
	if testing.Short() {
		n = 20_000 // two memtables may wait to be flushed
	}
	for i := range n {
		if err := db.Put(fmt.Appendf(nil, "key%08d", i*7919%n), value); err != nil {
			t.Fatal(err)
		}
		most = max(most, offheap.InUse()-before)
	}
	flushes := db.Metrics().Flushes
	closeTest(t, db)
	t.Logf("%.1f memtables of memory at most, %d flushes", float64(most)/size, flushes)
	if most > 3*size+size/2 || most < size/2 {
		t.Errorf("%d bytes beside the heap at most, memtables have %d", most, size)
	}
	if flushes < 2 {
		t.Errorf("%d flushes", flushes)
	}
	if left := besideHeap() - before; left != 0 {
		t.Errorf("%d bytes are left", left)
	}
}

// TestMemory_IteratorKeepsItsMemtable walks a memtable that was flushed, and
// whose memory others would have been given, long ago.
func TestMemory_IteratorKeepsItsMemtable(t *testing.T) {
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
