package shale

import (
	"fmt"
	"strings"
	"testing"

	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/vfs"
)

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
