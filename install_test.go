package shale

import (
	"fmt"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shaledb/shale/vfs"
	"github.com/shaledb/shale/vfs/faultfs"
)

// An iterator that is the last to need the tables of an old version closes at once, although it
// takes long to remove their files. Close of the store waits until they are removed, and does not
// sync the directory for that.
func TestDelete_NotByReaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const each = time.Second
		slow := false
		mem := vfs.NewMem()
		fsys := faultfs.New(mem, func(op vfs.Op, name string, _ int64) error {
			if slow && op == vfs.OpRemove && strings.HasSuffix(name, ".sst") {
				time.Sleep(each)
			}
			return nil
		})
		opts := tinyStore(fsys)
		opts.CompactionWorkers, opts.testing.minPrepared = -1, 0 // no log is prepared for nothing
		db, err := Open("db", &opts)
		if err != nil {
			t.Fatal(err)
		}
		fill(t, db, 1000, 0)
		mustFlush(t, db)
		it := db.NewIterator(Range{})
		if !it.First() {
			t.Fatal(it.Err())
		}
		if err := db.Compact(t.Context(), Range{}); err != nil {
			t.Fatal(err)
		}
		held := tablesOnDisk(t, db, mem)
		slow = true
		synctest.Wait()
		synced := fsys.Count(vfs.OpSyncDir)
		begin := time.Now()
		if err := it.Close(); err != nil {
			t.Error(err)
		}
		if took := time.Since(begin); took > 0 {
			t.Errorf("Close of the iterator took %v", took)
		}
		kept := len(db.Inspect().Tables())
		if err := db.Close(); err != nil {
			t.Error(err)
		}
		if took := time.Since(begin); held <= kept || took < time.Duration(held-kept)*each {
			t.Errorf("Close of the store took %v, though %d tables had to go", took, held-kept)
		}
		if n := fsys.Count(vfs.OpSyncDir) - synced; n > 1 { // Close may sync it once for the manifest
			t.Errorf("the directory was synced %d times", n)
		}
		names, err := mem.List("db")
		if err != nil {
			t.Fatal(err)
		}
		left := 0
		for _, name := range names {
			if strings.HasSuffix(name, ".sst") {
				left++
			}
		}
		if left != kept {
			t.Errorf("%d tables on disk, want %d", left, kept)
		}
	})
}

// A compaction that finds the disk full waits for the files that are about to be removed, and is
// tried again: while their removal is under way, the room is not free yet.
func TestDelete_RoomForTheNextAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var full, refused atomic.Bool
		mem := vfs.NewMem()
		opts := tinyStore(faultfs.New(mem, func(op vfs.Op, name string, _ int64) error {
			switch {
			case !full.Load() || !strings.HasSuffix(name, ".sst"):
			case op == vfs.OpRemove:
				time.Sleep(time.Second)
				full.Store(false)
			case op == vfs.OpWrite:
				refused.Store(true)
				return syscall.ENOSPC
			}
			return nil
		}))
		opts.CompactionWorkers, opts.testing.minPrepared = -1, 0
		db := openTest(t, &opts)
		for range 2 {
			for _, tenant := range []string{"a", "b"} {
				for i := range 500 {
					mustPut(t, db, fmt.Sprintf("%s%06d", tenant, i), "v")
				}
				mustFlush(t, db)
			}
		}
		it := db.NewIterator(Range{})
		if err := db.Compact(t.Context(), Prefix("a")); err != nil {
			t.Fatal(err)
		}
		db.giveUpRoom(0) // so that nothing else makes it worthwhile to try again
		synctest.Wait()
		full.Store(true)
		if err := it.Close(); err != nil {
			t.Fatal(err)
		}
		if err := db.Compact(t.Context(), Prefix("b")); err != nil {
			t.Errorf("a compaction while files were being removed: %v", err)
		}
		if !refused.Load() {
			t.Error("the compaction did not find the disk full")
		}
		wantGet(t, db, "b000499", "v", true)
	})
}
