package shale

import (
	"context"
	"fmt"
	"testing"

	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/vfs"
)

// Indexes take no more memory than IndexMemory says. Those of the newest runs have priority. The
// answers are the same under all limits.
func TestIndexMemory_IsALimit(t *testing.T) {
	testenv.SkipRace(t)
	opts := small()
	opts.FS, opts.CompactionWorkers = vfs.NewMem(), -1
	db := openTest(t, opts)
	fill(t, db, 20000, 0)
	settle(t, db)
	fill(t, db, 300, 0)
	mustFlush(t, db)
	all := db.Metrics().IndexMemory
	closeTest(t, db)
	for _, limit := range []int64{0, all, all * 3 / 4, all / 4, 1} {
		opts.Tuning.IndexMemory = limit
		db := openTest(t, opts)
		m := db.Metrics()
		if limit > 0 && m.IndexMemory > limit || m.IndexMemory+m.IndexOnDisk != all || m.Loading {
			t.Errorf("IndexMemory %d: indexes take %d bytes, and %d of %d are on disk; loading: %v", limit, m.IndexMemory, m.IndexOnDisk, all, m.Loading)
		}
		if want := limit * 7 / 8; limit > 1000 && m.IndexMemory < min(want, all) {
			t.Errorf("IndexMemory %d: indexes take only %d bytes", limit, m.IndexMemory)
		}
		wantNewestIndexed(t, db)
		for i := 0; i < 20000; i += 97 {
			wantGet(t, db, fmt.Sprintf("key%06d", i), fmt.Sprintf("value %d of round 0", i), true)
			wantGet(t, db, fmt.Sprintf("key%06dx", i), "", false)
		}
		if after := db.Metrics(); (after.IndexReads > 0) != (m.IndexOnDisk > 0) {
			t.Errorf("IndexMemory %d: %d reads of indexes with %d bytes on disk", limit, after.IndexReads, m.IndexOnDisk)
		}
		if err := db.Verify(context.Background()); err != nil {
			t.Error(err)
		}
		closeTest(t, db)
	}
}

// wantNewestIndexed checks that no run has an index in memory if a newer run lacks one.
func wantNewestIndexed(t *testing.T, db *DB) {
	t.Helper()
	v := db.mems.Acquire()
	defer db.tree.Release(v.Version)
	lacking := -1
	for i, r := range v.Runs {
		for _, table := range r.Tables {
			switch {
			case !table.Reader.HasIndex():
				lacking = i
			case lacking >= 0 && lacking < i:
				t.Errorf("run %d of %d has an index in memory, and run %d lacks one", i, len(v.Runs), lacking)
				return
			}
		}
	}
}

// With a limit, a compaction into the last level writes indexes with partitions. They take hardly
// any memory, and a lookup reads one partition.
func TestIndexMemory_Partitions(t *testing.T) {
	testenv.SkipRace(t)
	open := func(limit int64) (*DB, Metrics) {
		db := openTest(t, &Options{FS: vfs.NewMem(), Tuning: Tuning{IndexMemory: limit}, CompactionWorkers: -1, Durability: SyncManual,
			BlockSize: 256, FilterBits: -1, Compression: NoCompression})
		fill(t, db, 40000, 0)
		if err := db.Compact(context.Background(), Range{}); err != nil {
			t.Fatal(err)
		}
		// A table that was flushed may have moved down. Compact writes it again if it is overwritten.
		fill(t, db, 40000, 1)
		if err := db.Compact(context.Background(), Range{}); err != nil {
			t.Fatal(err)
		}
		return db, db.Metrics()
	}
	_, without := open(0)
	db, m := open(1 << 40)
	if m.IndexMemory > without.IndexMemory/20 || m.IndexOnDisk < without.IndexMemory/2 {
		t.Errorf("indexes take %d bytes of memory, without partitions %d; %d are on disk", m.IndexMemory, without.IndexMemory, m.IndexOnDisk)
	}
	wantGet(t, db, "key012345", "value 12345 of round 1", true)
	after := db.Metrics()
	if reads, bytes := after.IndexReads-m.IndexReads, after.BlockReadBytes-m.BlockReadBytes; reads != 1 || bytes > 6<<10 {
		t.Errorf("a lookup read %d partitions, and %d bytes in all", reads, bytes)
	}
}
