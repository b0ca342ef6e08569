package shale

import (
	"fmt"
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
