package wal

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/vfs"
	"github.com/shaledb/shale/vfs/faultfs"
)

// A sync that does not return has failed for good: nobody waits for ever, those who wait get an error, and
// so does Close's caller if it asks.
func TestSync_DoesNotReturn(t *testing.T) {
	for _, exit := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			var armed atomic.Bool
			enter := make(chan struct{})
			disk := faultfs.New(vfs.NewMem(), func(op vfs.Op, _ string, _ int64) error {
				if op != vfs.OpSync || !armed.Load() {
					return nil
				}
				<-enter
				if exit {
					runtime.Goexit()
				}
				panic("the file system")
			})
			w := mustCreate(t, Header{Num: 7, StoreID: testStore}, Options{FS: disk})
			end := mustAppend(t, w, "first", 1)
			synced := w.Synced()
			armed.Store(true)
			errs := make([]error, 4)
			var callers sync.WaitGroup
			for i := range errs {
				callers.Go(func() { errs[i] = base.Survive(func() error { return w.SyncTo(end, nil) }) })
			}
			synctest.Wait() // one of them syncs, and the others wait
			armed.Store(false)
			close(enter)
			callers.Wait()
			for i, err := range errs {
				if err == nil {
					t.Errorf("caller %d: no error", i)
				}
			}
			if w.Err() == nil || !w.SyncFailed() || w.Synced() != synced {
				t.Errorf("the log goes on: %v, failed %v, durable up to %d of %d", w.Err(), w.SyncFailed(), w.Synced(), end)
			}
			if err := w.Close(); err != nil {
				t.Errorf("Close: %v", err)
			}
		})
	}
}
