package shale

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/vfs"
)

// A compaction that meets a damaged table sets it aside, so that later compactions leave it
// alone. One event reports it, and other tables are compacted. When level 0 is full and can't get
// shallower, writes fail with the damage as the cause. Once the table is whole, Verify lets
// compactions and writes go on.
func TestCompaction_DamagedTableIsSetAside(t *testing.T) {
	testenv.SkipRace(t)
	synctest.Test(t, func(t *testing.T) {
		mem := vfs.NewMem()
		opts := tinyStore(mem)
		opts.CacheSize = -1
		// Level 0 is compacted straight into the last level, as in any store of less than baseSize.
		// Else the damaged table could lie below another level, which has room for more writes.
		opts.testing.baseSize = 128 << 10
		told := make(map[EventKind]int)
		var damaged base.FileNum
		var mu sync.Mutex
		opts.OnEvent = func(e Event) {
			mu.Lock()
			defer mu.Unlock()
			if told[e.Kind]++; e.Kind == EventTableSetAside && e.Tables[0] != uint64(damaged) {
				t.Errorf("table %d was set aside, %d is damaged", e.Tables[0], damaged)
			}
		}
		db := mustOpen(t, "db", &opts)
		fill(t, db, 3000, 0)
		mustFlush(t, db)
		synctest.Wait()
		level := 1
		for len(db.mems.View().Meta.Levels[level].Runs) == 0 {
			level++
		}
		tables := db.mems.View().Meta.Levels[level].Runs[0].Tables
		damaged = tables[len(tables)/2].Num
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		clear(told)
		flip := func() {
			t.Helper()
			name := "db/" + tableName(damaged)
			data := []byte(storeFiles(t, mem)[tableName(damaged)])
			data[20] ^= 0x10
			if err := writeFile(mem, name, data); err != nil {
				t.Fatal(err)
			}
		}
		flip()

		db = mustOpen(t, "db", &opts)
		put := func(key, value string) error {
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			defer cancel()
			var b Batch
			mustPut(t, &b, key, value)
			return db.Write(ctx, &b)
		}
		var refused error
		for i := 0; refused == nil && i < 100_000; i++ {
			refused = put(fmt.Sprintf("key%06d", i*7919%3000), "again")
		}
		var damage *CorruptionError
		if !errors.Is(refused, ErrReadOnly) || !errors.As(refused, &damage) || damage.File != tableName(damaged) {
			t.Errorf("a write when level 0 is full: %v", refused)
		}
		if n := len(db.mems.View().Meta.Levels[0].Runs); n < stopRuns {
			t.Errorf("level 0 has %d runs", n)
		}
		time.Sleep(24 * time.Hour) // of the bubble
		synctest.Wait()
		if told[EventTableSetAside] != 1 || told[EventCorruption] != 1 || told[EventBackgroundError] != 1 {
			t.Errorf("told: %v", told)
		}
		stalls := told[EventStallBegin]
		if err := put("key", "value"); err == nil || told[EventStallBegin] != stalls {
			t.Errorf("another write: %v; told: %v", err, told)
		}
		for range 2 { // Verify reads the table each time
			if err := db.Verify(t.Context()); !errors.As(err, &damage) {
				t.Errorf("Verify: %v", err)
			}
		}

		flip()
		if err := db.Verify(t.Context()); err != nil {
			t.Errorf("Verify of a store that is whole again: %v", err)
		}
		synctest.Wait()
		for i := range 3000 {
			if err := put(fmt.Sprintf("key%06d", i), "whole"); err != nil {
				t.Fatalf("a write of a store that is whole again: %v", err)
			}
		}
		if n := len(db.mems.View().Meta.Levels[0].Runs); n >= stopRuns {
			t.Errorf("level 0 has %d runs", n)
		}
		closeTest(t, db)
	})
}

func tableName(num base.FileNum) string { return base.TableName(num) }

// Compact may have to compact level 0 first, and meet a damaged table outside of its range. It
// sets that table aside and succeeds. If the damage is within its range, it returns it.
func TestCompact_DamageOutsideTheRange(t *testing.T) {
	mem := vfs.NewMem()
	opts := tinyStore(mem)
	opts.CacheSize, opts.CompactionWorkers, opts.MemtableSize = -1, -1, 64<<10
	aside := 0
	opts.OnEvent = func(e Event) {
		if e.Kind == EventTableSetAside {
			aside++
		}
	}
	round := func(db *DB) {
		t.Helper()
		for _, letter := range "az" {
			for i := range 100 {
				mustPut(t, db, fmt.Sprintf("%c%06d", letter, i), "value")
			}
			mustFlush(t, db)
		}
	}
	db := mustOpen(t, "db", &opts)
	round(db)
	if err := db.Compact(t.Context(), Prefix("a")); err != nil {
		t.Fatal(err)
	}
	if err := db.Compact(t.Context(), Prefix("z")); err != nil {
		t.Fatal(err)
	}
	damaged := ""
	for _, info := range db.Inspect().Tables() {
		if info.Smallest[0] == 'z' {
			damaged = base.TableName(base.FileNum(info.Number))
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	data := []byte(storeFiles(t, mem)[damaged])
	data[20] ^= 0x10
	if err := writeFile(mem, "db/"+damaged, data); err != nil {
		t.Fatal(err)
	}

	db = mustOpen(t, "db", &opts)
	for range 5 {
		round(db)
	}
	db.opts.CompactionWorkers = 1 // no worker was started, so that Compact does all compactions
	if err := db.Compact(t.Context(), Prefix("a")); err != nil || aside != 1 {
		t.Errorf("Compact of other keys: %v; %d tables were set aside", err, aside)
	}
	var damage *CorruptionError
	if err := db.Compact(t.Context(), Prefix("z")); !errors.As(err, &damage) || damage.File != damaged || aside != 1 {
		t.Errorf("Compact of the damaged keys: %v; %d tables were set aside", err, aside)
	}
}
