package shale

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/vfs"
	"github.com/shaledb/shale/vfs/faultfs"
)

// This file has a test for each rule of range deletes that docs/decisions/0012 states. A mutant breaks each rule.

// compactBackground does what the store's own compactions would do, and flushes nothing.
func compactBackground(t *testing.T, db *DB) {
	t.Helper()
	for {
		plan := db.scheduler.PickFor(1)
		if plan == nil {
			return
		}
		err := db.runPlan(db.life.Context, plan)
		db.scheduler.Done(plan)
		if err != nil {
			t.Fatal(err)
		}
	}
}

// byHand returns the options of a store that compacts nothing by itself.
func byHand(fs vfs.FS) *Options {
	o := tinyStore(fs)
	o.CompactionWorkers = -1
	return &o
}

func mustDeleteRange(t *testing.T, w Writer, lower, upper string) {
	t.Helper()
	var to []byte
	if upper != "" {
		to = []byte(upper)
	}
	if err := w.DeleteRange([]byte(lower), to); err != nil {
		t.Fatal(err)
	}
}

// A reader sees a batch as a whole, whose range delete takes what the batch before has put: it sees one key, always.
func TestDeleteRange_WholeBatches(t *testing.T) {
	db := openTest(t, &Options{Durability: SyncManual, MemtableSize: 64 << 10})
	mustPut(t, db, "k", "")
	stop, done := make(chan struct{}), make(chan error, 1)
	go func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				done <- nil
				return
			default:
			}
			var b Batch
			if err := errors.Join(b.DeleteRange(nil, nil), b.Put(fmt.Appendf(nil, "k%d", i%7), nil), db.Write(context.Background(), &b)); err != nil {
				done <- err
				return
			}
		}
	}()
	for begin, long := time.Now(), max(testenv.Long(t), time.Second); time.Since(begin) < long; {
		var keys []string
		for e, err := range db.Scan(Range{}) {
			if err != nil {
				t.Fatal(err)
			}
			keys = append(keys, string(e.Key))
		}
		if len(keys) != 1 {
			t.Errorf("the store has %q at once", keys)
			break
		}
	}
	close(stop)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

// A power cut takes back a range delete that was not synced, and no key that it had covered, though compactions went on
// meanwhile.
func TestDeleteRange_UnsyncedIsTakenBack(t *testing.T) {
	mem := vfs.NewMem()
	o := byHand(mem)
	o.testing.level0 = 2
	db := openTest(t, o)
	for range 2 { // runs that are merged, and not only moved
		for i := range 200 {
			mustPut(t, db, fmt.Sprintf("key%06d", i), fmt.Sprintf("%0100d", i))
		}
		mustFlush(t, db)
	}
	mustDeleteRange(t, db, "", "")
	compactBackground(t, db)
	if m := db.Metrics(); m.CompactReadBytes == 0 {
		t.Error("nothing was compacted")
	}
	crashed := openTest(t, byHand(mem.Crash(vfs.CrashConfig{})))
	for i := range 200 {
		wantGet(t, crashed, fmt.Sprintf("key%06d", i), fmt.Sprintf("%0100d", i), true)
	}
}

// A range delete hides what is older than it and nothing else, while it is live: also if compactions have gone over a newer
// entry. A snapshot keeps it live.
func TestDeleteRange_NewerEntryStays(t *testing.T) {
	o := byHand(vfs.NewMem())
	db := openTest(t, o)
	mustPut(t, db, "a", "old")
	mustFlush(t, db)
	s, err := db.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	mustDeleteRange(t, db, "", "")
	mustFlush(t, db)
	mustPut(t, db, "b", "new")
	mustFlush(t, db)
	mustPut(t, db, "b", "new") // so that there is something to merge
	// For the snapshot it must stay until the compaction, which it lets go on.
	if err := errors.Join(db.Flush(t.Context()), s.Close(), db.Compact(t.Context(), Range{Lower: []byte("b")})); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		wantGet(t, db, "a", "", false)
		wantGet(t, db, "b", "new", true)
		if got := scanAll(t, db, Range{}); got != "b=new" {
			t.Errorf("the store has %q", got)
		}
		closeTest(t, db)
		db = openTest(t, byHand(o.FS))
	}
}

// A range delete that has come to its end does not come back when the store is opened again: else it would hide newer
// entries, whose numbers merges have taken away.
func TestDeleteRange_EndsForGood(t *testing.T) {
	mem := vfs.NewMem()
	db := openTest(t, byHand(mem))
	mustPut(t, db, "a", "old")
	mustFlush(t, db)
	mustDeleteRange(t, db, "", "")
	settle(t, db)
	if n := db.Metrics().RangeDeletes; n != 0 {
		t.Fatalf("%d range deletes are left", n)
	}
	for range 2 { // so that there is something to merge
		mustPut(t, db, "a", "new")
		mustFlush(t, db)
	}
	if err := db.Compact(t.Context(), Range{}); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		wantGet(t, db, "a", "new", true)
		crashed := openTest(t, byHand(mem.Crash(keepEverything)))
		wantGet(t, crashed, "a", "new", true)
		closeTest(t, db)
		db = openTest(t, byHand(mem))
	}
}

// A range delete stays as long as an older entry lies below, of whatever run: the store goes on without the table that
// covered parts of it, and is opened again.
func TestDeleteRange_StaysOverOlder(t *testing.T) {
	mem := vfs.NewMem()
	db := openTest(t, byHand(mem))
	for _, k := range []string{"a", "m", "z"} {
		mustPut(t, db, k, "old")
	}
	mustFlush(t, db) // one table, which is covered in part
	mustPut(t, db, "m", "older than the range delete too")
	mustFlush(t, db)
	mustDeleteRange(t, db, "b", "y")
	mustPut(t, db, "n", "new")
	mustFlush(t, db)
	for step := range 3 {
		if got := scanAll(t, db, Range{}); got != "a=old n=new z=old" {
			t.Errorf("step %d: the store has %q", step, got)
		}
		wantGet(t, db, "m", "", false)
		plan := db.scheduler.PickFor(1)
		if plan == nil {
			break
		}
		err := db.runPlan(db.life.Context, plan)
		db.scheduler.Done(plan)
		if err != nil {
			t.Fatal(err)
		}
		if got := scanAll(t, openTest(t, byHand(mem.Crash(keepEverything))), Range{}); got != "a=old n=new z=old" {
			t.Errorf("step %d: after a crash the store has %q", step, got)
		}
	}
}

// A transaction that has read a key, or that there is none, conflicts with a range delete of it, though tables and range
// delete would have no use but for its snapshot. The verdict does not depend on what was compacted.
func TestDeleteRange_ConflictsWithOldTransactions(t *testing.T) {
	for name, read := range map[string]func(tx *Txn) error{
		"get":    func(tx *Txn) error { _, err := tx.Get([]byte("key")); return err },
		"absent": func(tx *Txn) error { _, err := tx.Has([]byte("kex")); return err },
		"scan":   func(tx *Txn) error { scanAll(t, tx, Range{Lower: []byte("kez"), Upper: []byte("kf")}); return nil },
		"empty":  func(tx *Txn) error { scanAll(t, tx, Range{Lower: []byte("kez"), Upper: []byte("kez9")}); return nil },
	} {
		o := byHand(vfs.NewMem())
		o.testing.tailChunk = 1 // so that the tables are asked
		db := openTest(t, o)
		if name == "get" {
			mustPut(t, db, "key", "v") // an older entry, which keeps the range delete by itself
			settle(t, db)
		}
		tx := mustBegin(t, db)
		if err := errors.Join(read(tx), tx.Put([]byte("k"), nil)); err != nil {
			t.Fatal(err)
		}
		mustPut(t, db, "kex", "v")
		mustDeleteRange(t, db, "kex", "kf")
		for range 20 {
			mustPut(t, db, "other", "v")
		}
		settle(t, db)
		if err := db.Compact(t.Context(), Range{}); err != nil {
			t.Fatal(err)
		}
		compactBackground(t, db)
		if err := tx.Commit(t.Context()); !errors.Is(err, ErrConflict) {
			t.Errorf("%s: Commit = %v", name, err)
		}
	}
}

// A table that a range delete covers stays as long as a snapshot sees it.
func TestDeleteRange_SnapshotKeepsTables(t *testing.T) {
	db := openTest(t, byHand(vfs.NewMem()))
	mustPut(t, db, "a", "old")
	mustFlush(t, db)
	s, err := db.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	mustDeleteRange(t, db, "", "")
	settle(t, db)
	wantGet(t, s, "a", "old", true)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	compactBackground(t, db)
	if levels := levelsInUse(db); len(levels) > 0 {
		t.Errorf("levels %v have tables", levels)
	}
}

// A read-only handle sees a range delete that was flushed alone.
func TestAdvance_RangeDeleteFlushedAlone(t *testing.T) {
	mem := vfs.NewMem()
	db := openTest(t, byHand(mem))
	mustPut(t, db, "a", "1")
	mustFlush(t, db)
	o := byHand(mem)
	o.ReadOnly = true
	ro := openTest(t, o)
	for i, flushed := range []bool{false, true} {
		mustDeleteRange(t, db, "", "")
		if flushed {
			mustFlush(t, db)
		}
		if _, err := ro.Advance(t.Context()); err != nil {
			t.Fatal(err)
		}
		wantGet(t, ro, "a", "", false)
		if i == 0 {
			mustPut(t, db, "a", "2")
		}
	}
}

// A reader that could not advance to a range delete does not deny what it finds.
func TestDeleteRange_FailedAdvance(t *testing.T) {
	failed := 0
	for at := int64(1); at < 40; at++ {
		mem := vfs.NewMem()
		o := byHand(mem)
		o.MemtableSize = 8 << 20
		db := mustOpen(t, "db", o)
		mustPut(t, db, "k", "v")
		disk := faultfs.New(mem, nil)
		o.FS, o.ReadOnly = disk, true
		follower := mustOpen(t, "db", o)
		mustDeleteRange(t, db, "a", "")
		for range 20 { // one read of the log does not reach as far
			mustPut(t, db, "later", strings.Repeat("v", 100_000))
		}
		if err := db.Sync(); err != nil {
			t.Fatal(err)
		}
		disk.Inject(faultfs.FailFrom(at, errors.New("no disk")))
		_, err := follower.Advance(context.Background())
		disk.Inject(nil)
		if err != nil {
			failed++
		}
		if _, err := follower.Get([]byte("k")); err == nil && !follower.MayContain([]byte("k")) {
			t.Errorf("operation %d failed: Get finds the key, and MayContain denies it", at)
		}
		closeTest(t, follower)
		closeTest(t, db)
	}
	if failed == 0 {
		t.Error("no Advance failed")
	}
}

// What a table is clean of hides nothing of it any more. Were it counted, the table would be rewritten again and again while a
// snapshot keeps the range delete.
func TestDeleteRange_CleanTableIsNotHidden(t *testing.T) {
	db := mustOpen(t, "db", byHand(vfs.NewMem()))
	t.Cleanup(func() { closeTest(t, db) })
	fill(t, db, 200, 1)
	mustFlush(t, db)
	mustDeleteRange(t, db, "", "")
	version := *db.mems.View().Meta
	version.Spans = version.Spans.With(nil, nil, db.commits.Visible())
	table := version.Levels[0].Runs[0].Tables[0]
	if _, parts := db.hidden(version.Spans, table, base.MaxSeq); parts != 1 {
		t.Errorf("%d parts are hidden, want 1", parts)
	}
	clean := *table
	clean.Clean = version.Spans.Last()
	if share, parts := db.hidden(version.Spans, &clean, base.MaxSeq); parts != 0 {
		t.Errorf("%v of a clean table are hidden, in %d parts", share, parts)
	}
}
