package shale

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/shaledb/shale/internal/testenv"
)

// TestWrite_LargeBatchBlocksNoReader reads beside the commit of large batches:
// one of many puts, and one of few large values. It prints the longest Get; with
// SHALE_LONG, on a machine that does nothing else, that is asserted. That
// readers get in between is held by TestAdd_LeavesReadersRoom of memtable. The
// bytes that a commit allocates are counted.
func TestWrite_LargeBatchBlocksNoReader(t *testing.T) {
	puts, values := 100_000, 4
	if testenv.Long(t) > 0 {
		puts, values = 1_000_000, 60
	}
	for _, c := range []struct{ n, size int }{{puts, 16}, {values, 4 << 20}} {
		t.Run(fmt.Sprintf("%d of %d bytes", c.n, c.size), func(t *testing.T) {
			db, err := Open(t.TempDir(), &Options{Durability: SyncManual, MemtableSize: 1 << 30})
			if err != nil {
				t.Fatal(err)
			}
			defer closeTest(t, db)
			mustPut(t, db, "key", "value")
			b := new(Batch)
			value := make([]byte, c.size)
			for i := range c.n {
				if err := b.Put(fmt.Appendf(nil, "key%09d", i*7919%c.n), value); err != nil {
					t.Fatal(err)
				}
			}
			var longest atomic.Int64
			var gets int
			var stop atomic.Bool
			var wg sync.WaitGroup
			wg.Go(func() {
				key, dst := []byte("key"), make([]byte, 0, 16)
				for !stop.Load() {
					begin := time.Now()
					_, err := db.AppendValue(dst, key) // allocates nothing
					longest.Store(max(longest.Load(), int64(time.Since(begin))))
					if gets++; err != nil {
						t.Error(err)
						return
					}
				}
			})
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			begin := time.Now()
			err = db.Write(context.Background(), b)
			took := time.Since(begin)
			stop.Store(true)
			wg.Wait()
			runtime.ReadMemStats(&after)
			if err != nil {
				t.Fatal(err)
			}
			allocated := int64(after.TotalAlloc - before.TotalAlloc)
			t.Logf("a batch of %d bytes takes %v and %d bytes of heap; %d Gets beside it, the longest %v",
				b.Size(), took, allocated, gets, time.Duration(longest.Load()))
			// The tree of the memtable takes 60 bytes an entry or so.
			if limit := int64(c.n)*150 + 1<<20; !testenv.Race && allocated > limit {
				t.Errorf("a batch of %d bytes takes %d bytes of heap, want at most %d", b.Size(), allocated, limit)
			}
			if testenv.Long(t) > 0 && longest.Load() > int64(20*time.Millisecond) {
				t.Errorf("a Get took %v, want at most 20ms", time.Duration(longest.Load()))
			}
		})
	}
}
