package shale

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/shaledb/shale/vfs"
	"github.com/shaledb/shale/wal"
)

// A flush may end while the leader is between the two lines of a rotation that make the memtable
// immutable and note the log of the next one. The manifest then keeps a log whose writes are all in
// tables. An ingestion is not in the logs. So after it no such log may be replayed, for the writes in
// it are older than what was ingested: they would hide it, once a compaction has given the ingested
// entries sequence number 0.
func TestIngest_AfterAFlushInARotation(t *testing.T) {
	o := small()
	disk := vfs.NewMem()
	o.FS, o.CompactionWorkers = disk, -1
	db := mustOpen(t, "db", o)
	mustPut(t, db, "k000001", "old")
	mustDelete(t, db, "k000001")
	beside := *o
	beside.ReadOnly = true
	reader := mustOpen(t, "db", &beside)

	// changeLogs, but the flusher overtakes it before the next log is noted.
	err := db.commits.Alone(context.Background(), func() error {
		old, oldNum := db.logs.Current(), db.logs.CurrentNum()
		sealed, err := db.logs.Seal(db.commits.Last())
		if err != nil {
			return err
		}
		if err := db.logs.Begin(wal.Header{StoreID: db.storeID, Prev: oldNum, PrevLen: sealed.Length, PrevSeq: sealed.LastSeq}); err != nil {
			return err
		}
		if err := old.Close(); err != nil {
			return err
		}
		db.mems.Freeze()
		if err := db.flushAll(); err != nil {
			return err
		}
		db.mems.SetLog(db.logs.Rotated())
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	mustIngest(t, db, sortedKeys(0, 3, "new"))
	if err := db.Compact(context.Background(), Range{}); err != nil {
		t.Fatal(err)
	}
	wantGet(t, db, "k000001", "new", true)
	if _, err := reader.Advance(context.Background()); err != nil {
		t.Fatal(err)
	}
	wantGet(t, reader, "k000001", "new", true)
	closeTest(t, reader)
	if err := db.Checkpoint("copy"); err != nil {
		t.Fatal(err)
	}
	crashed := disk.Crash(vfs.CrashConfig{})
	closeTest(t, db)
	for _, dir := range []string{"copy", "db", "crashed"} {
		if dir == "crashed" {
			dir, o.FS = "db", crashed
		}
		db := mustOpen(t, dir, o)
		wantGet(t, db, "k000001", "new", true)
		closeTest(t, db)
	}
}

// A store that is only ingested into begins another log once the marks have filled one. Each ingestion
// stays, and has its mark in one of the logs. Those that nobody holds are used again or removed.
func TestIngest_BeginsLogs(t *testing.T) {
	for _, hold := range []uint64{0, 1} {
		o := small()
		disk := vfs.NewMem()
		o.FS, o.MemtableSize, o.Shipping.HoldLogs = disk, 16<<10, hold
		db := mustOpen(t, "db", o)
		beside := *o
		beside.ReadOnly = true
		reader := mustOpen(t, "db", &beside)
		key := strings.Repeat("k", 1000)
		const n = 100
		for i := range n {
			mustIngest(t, db, func(yield func(k, v []byte) bool) { yield([]byte(key), fmt.Append(nil, i)) })
			if w := db.logs.Current().Len(); w > 16<<10+4<<10 {
				t.Fatalf("after %d ingestions the log has %d bytes", i+1, w)
			}
			if _, err := reader.Advance(context.Background()); err != nil {
				t.Fatal(err)
			}
			wantGet(t, reader, key, fmt.Sprint(i), true)
		}
		closeTest(t, reader)
		nums, batches := chainOf(t, db)
		marks := 0
		for _, n := range batches {
			marks += n
		}
		if hold > 0 && (marks != n || len(nums) < 8) || hold == 0 && len(nums) > 1+2 {
			t.Errorf("hold from %d: the logs %v are there, with %d marks", hold, nums, marks)
		}
		if db.logs.Count() != 1 {
			t.Errorf("%d logs are needed", db.logs.Count())
		}
		crashed := disk.Crash(vfs.CrashConfig{})
		closeTest(t, db)
		for _, fs := range []vfs.FS{disk, crashed} {
			o.FS = fs
			db := mustOpen(t, "db", o)
			wantGet(t, db, key, fmt.Sprint(n-1), true)
			closeTest(t, db)
		}
	}
}
