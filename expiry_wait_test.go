package shale

import (
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shaledb/shale/vfs"
)

// While the system's clock is behind the store's, because it has jumped ahead and back, the store waits until it comes there,
// and does not look again and again.
func TestTTL_WaitsForAClockThatWentBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ahead, looks atomic.Int64
		o := Options{FS: vfs.NewMem()}
		o.testing.now = func() time.Time {
			looks.Add(1)
			return time.Now().Add(time.Duration(ahead.Load()))
		}
		db := mustOpen(t, "db", &o)
		defer db.Close()
		for i := range 100 {
			mustPutTTL(t, db, fmt.Sprint(i), "v", 10*time.Hour)
		}
		mustFlush(t, db)
		ahead.Store(int64(10*time.Hour - time.Millisecond))
		db.snapshots.Clock.Now()
		ahead.Store(0)
		db.scheduler.Nudge()
		synctest.Wait()
		looks.Store(0)
		time.Sleep(time.Minute)
		if n := looks.Load(); n > 5000 { // some: level 0 makes it look, too
			t.Fatalf("it has looked %d times within a minute", n)
		}
		time.Sleep(10 * time.Hour)
		synctest.Wait()
		if n := entriesInTables(db); n != 0 {
			t.Errorf("%d entries are left", n)
		}
	})
}

// A snapshot that is closed while the store looks what has expired is noticed, whenever that is.
func TestTTL_SnapshotClosedMeanwhile(t *testing.T) {
	for moment := int64(1); moment <= 3; moment++ { // the loop, its pick, and how long it waits then
		synctest.Test(t, func(t *testing.T) {
			var snapshot *Snapshot
			var calls atomic.Int64
			calls.Store(-1 << 20)
			o := Options{FS: vfs.NewMem()}
			o.testing.now = func() time.Time {
				if calls.Add(1) == moment {
					snapshot.Close()
				}
				return time.Now()
			}
			db := mustOpen(t, "db", &o)
			defer db.Close()
			for i := range 100 {
				mustPutTTL(t, db, fmt.Sprint(i), "v", time.Minute)
			}
			var err error
			if snapshot, err = db.Snapshot(); err != nil {
				t.Fatal(err)
			}
			compactAll(t, db)
			synctest.Wait()
			calls.Store(0)
			time.Sleep(3 * time.Hour)
			synctest.Wait()
			if calls.Swap(-1<<20) < moment {
				t.Fatalf("moment %d did not come", moment)
			}
			if n := entriesInTables(db); n != 0 {
				t.Errorf("closed at moment %d: %d entries are left", moment, n)
			}
		})
	}
}
