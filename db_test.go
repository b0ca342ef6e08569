package shale

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shaledb/shale/vfs"
)

// A store in memory works in a bubble of testing/synctest and follows the bubble's clock, so
// that users can test with it. Pools that all stores share must not carry anything of one
// bubble into the next.
func TestOpen_InSynctestBubbles(t *testing.T) {
	for range 3 {
		synctest.Test(t, func(t *testing.T) {
			mem := vfs.NewMem()
			db, err := Open("db", &Options{FS: mem, MemtableSize: 4 << 10, Durability: SyncPeriodic, SyncEvery: time.Hour})
			if err != nil {
				t.Fatal(err)
			}
			var wg sync.WaitGroup
			for g := range 8 {
				wg.Go(func() {
					for i := range 50 {
						mustPut(t, db, fmt.Sprintf("key%d-%d", g, i), "value")
						_, _ = db.Has([]byte("absent"))
					}
				})
			}
			wg.Wait()
			mustPut(t, db, "last", "value")
			w := db.logs.Current()
			if w.Synced() == w.Len() {
				t.Error("the log was synced before its time")
			}
			time.Sleep(time.Hour + time.Minute) // of the bubble
			synctest.Wait()
			if w.Synced() != w.Len() {
				t.Errorf("%d bytes of the log, %d synced an hour later", w.Len(), w.Synced())
			}
			closeTest(t, db)
		})
	}
}
