package shale

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shaledb/shale/internal/offheap"
	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/vfs"
)

// TestCommit_SyncedWritersShare counts syncs: sixteen writers, each of whom waits
// for its own write, need about one sync for all of them, not one for the first
// and one for the others. So it is inside the queue, with SyncEach, and outside
// of it.
func TestCommit_SyncedWritersShare(t *testing.T) {
	const writers, each = 16, 100
	for _, d := range []Durability{SyncEach, SyncManual} {
		synctest.Test(t, func(t *testing.T) {
			var syncs atomic.Int64
			fsys := vfs.NewFault(vfs.NewMem(), func(op vfs.Op, name string, _ int64) error {
				if op == vfs.OpSync && strings.HasSuffix(name, ".wal") {
					syncs.Add(1)
					time.Sleep(time.Millisecond)
				}
				return nil
			})
			db, err := Open("db", &Options{FS: fsys, Durability: d})
			if err != nil {
				t.Fatal(err)
			}
			syncs.Store(0)
			var wg sync.WaitGroup
			for g := range writers {
				wg.Go(func() {
					for i := range each {
						b := batchOf(t, fmt.Sprintf("key%d-%d", g, i), SyncEach)
						if err := db.Write(context.Background(), b); err != nil {
							t.Error(err)
						}
					}
				})
			}
			wg.Wait()
			n := syncs.Load()
			t.Logf("durability %d: %d syncs of %d writes", d, n, writers*each)
			// The race detector schedules at random, so that writers come back later
			// than a leader waits for them: there the writes count, not the syncs.
			if n > each*3/2 && !testenv.Race {
				t.Errorf("durability %d: %d syncs of %d writes by %d writers, want little more than %d", d, n, writers*each, writers, each)
			}
			closeTest(t, db)
		})
	}
}

// TestBatch_OneAllocation: a batch of one change takes its memory at once.
func TestBatch_OneAllocation(t *testing.T) {
	if testenv.Race {
		t.Skip("the race detector allocates")
	}
	key, value := make([]byte, 16), make([]byte, 100)
	n := testing.AllocsPerRun(100, func() {
		var b Batch
		if err := b.Put(key, value); err != nil {
			t.Fatal(err)
		}
	})
	if n > 1 {
		t.Errorf("%v allocations", n)
	}
}

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

// BenchmarkWrite_Synced makes batches of one put, each synced, by one writer and
// by sixteen, in a store with SyncEach and in one without.
func BenchmarkWrite_Synced(b *testing.B) {
	for _, d := range []Durability{SyncEach, SyncManual} {
		for _, writers := range []int{1, 16} {
			b.Run(fmt.Sprintf("durability=%d/writers=%d", d, writers), func(b *testing.B) {
				db, err := Open(b.TempDir(), &Options{Durability: d})
				if err != nil {
					b.Fatal(err)
				}
				var next atomic.Int64
				var wg sync.WaitGroup
				b.ResetTimer()
				for range writers {
					wg.Go(func() {
						batch := new(Batch)
						for i := next.Add(1); i <= int64(b.N); i = next.Add(1) {
							batch.Reset()
							_ = batch.Put(fmt.Appendf(nil, "key%012d", i), make([]byte, 100)) // far below every limit
							batch.SetDurability(SyncEach)
							if err := db.Write(context.Background(), batch); err != nil {
								b.Error(err)
								return
							}
						}
					})
				}
				wg.Wait()
				b.StopTimer()
				closeTest(b, db)
			})
		}
	}
}
