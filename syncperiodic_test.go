package shale

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shaledb/shale/vfs"
)

// TestSyncPeriodic_WhileALogIsPrepared: under SyncPeriodic a write is on disk
// SyncEvery later, also while the file of the next log takes long to make.
func TestSyncPeriodic_WhileALogIsPrepared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := false
		fsys := vfs.NewFault(vfs.NewMem(), func(op vfs.Op, name string, _ int64) error {
			if slow && op == vfs.OpCreate && strings.HasSuffix(name, ".wal") {
				time.Sleep(10 * time.Second)
			}
			return nil
		})
		opts := tinyStore(fsys)
		opts.MemtableSize, opts.Durability, opts.SyncEvery = 64<<10, SyncPeriodic, 100*time.Millisecond
		db, err := Open("db", &opts)
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		slow = true
		for db.view.Load().mem.Taken() <= opts.MemtableSize/2 {
			mustPut(t, db, "key", "value")
		}
		mustPut(t, db, "key", "value") // asks for the next log
		synctest.Wait()                // the file is being made
		mustPut(t, db, "late", "value")
		time.Sleep(opts.SyncEvery)
		synctest.Wait()
		if w := db.logs.Current(); w.Synced() < w.Len() {
			t.Errorf("%d of %d bytes are synced after SyncEvery", w.Synced(), w.Len())
		}
		closeTest(t, db)
	})
}
