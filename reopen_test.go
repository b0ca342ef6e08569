package shale

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/shaledb/shale/vfs"
)

// A Sync beside Close succeeds or gets ErrClosed, and no alarm is raised.
func TestSync_BesideClose(t *testing.T) {
	for range 200 {
		var alarm atomic.Pointer[Event]
		db, err := Open("store", &Options{FS: vfs.NewMem(), Durability: SyncManual, OnEvent: func(e Event) {
			if e.Err != nil {
				alarm.Store(&e)
			}
		}})
		if err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for i := range 1000 {
					_ = db.Put(fmt.Appendf(nil, "%d", i), nil) // until it is closed
					if err := db.Sync(); err != nil {
						if err != ErrClosed {
							t.Errorf("Sync beside Close: %v, want ErrClosed", err)
						}
						return
					}
				}
			})
		}
		if err := db.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
		wg.Wait()
		if e := alarm.Load(); e != nil {
			t.Fatalf("event %v: %v", e.Kind, e.Err)
		}
	}
}
