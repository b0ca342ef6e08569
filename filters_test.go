package shale

import (
	"context"
	"fmt"
	"testing"

	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/vfs"
)

// From Open on, filters take no more memory than FilterMemory, however large those in tables, or in files of
// their own, are. Answers stay the same.
func TestFilterMemory_IsALimit(t *testing.T) {
	testenv.SkipRace(t)
	for _, sidecars := range []bool{false, true} {
		filterMemoryIsALimit(t, sidecars)
	}
}

func filterMemoryIsALimit(t *testing.T, sidecars bool) {
	opts := small()
	opts.FS, opts.FilterBits, opts.CompactionWorkers = vfs.NewMem(), 16, -1
	db := openTest(t, opts)
	fill(t, db, 20000, 0)
	settle(t, db)
	fill(t, db, 300, 0)
	mustFlush(t, db)
	if sidecars {
		closeTest(t, db)
		opts.Tuning.FilterHash = XXH3
		db = openTest(t, opts)
		mustRebuild(t, db)
	}
	all := db.Metrics().FilterMemory
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	lastFPR := -1.0
	for _, limit := range []int64{0, all - 1, all * 3 / 4, all / 2, all / 4, 1000, 1} {
		opts.FilterMemory = limit
		db := openTest(t, opts)
		awaitLoaded(t, db)
		m := db.Metrics()
		if limit > 0 && m.FilterMemory > limit || limit == all/2 && m.FilterMemory < limit/2 || m.UnusableFilters != 0 {
			t.Errorf("FilterMemory %d: filters take %d bytes, %d can't be used", limit, m.FilterMemory, m.UnusableFilters)
		}
		for _, info := range db.Inspect().Tables() {
			if sidecars && info.FilterFile == "" {
				t.Errorf("FilterMemory %d: table %+v", limit, info)
			}
		}
		if fpr := m.PredictedFPR(); fpr < lastFPR {
			t.Errorf("FilterMemory %d: predicted rate %v, with more memory %v", limit, fpr, lastFPR)
		} else {
			lastFPR = fpr
		}
		if limit == all*3/4 && m.Levels[0].FilterBits < 20 {
			t.Errorf("FilterMemory %d: level 0 has %.1f bits a key, level 6 %.1f", limit, m.Levels[0].FilterBits, m.Levels[6].FilterBits)
		}
		for i := 0; i < 20000; i += 97 {
			wantGet(t, db, fmt.Sprintf("key%06d", i), fmt.Sprintf("value %d of round 0", i), true)
			wantGet(t, db, fmt.Sprintf("key%06dx", i), "", false)
		}
		if err := db.Verify(context.Background()); err != nil {
			t.Error(err)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// Keys that are written in order make tables that are moved down without being rewritten. Flushes
// gave them more filter bits than a lower level should have, and the surplus is released from memory.
func TestFilterBits_SequentialLoad(t *testing.T) {
	if testenv.Race {
		t.Skip("too many keys for the race detector")
	}
	const n = 1_200_000
	opts := &Options{MemtableSize: 4 << 20, TableSize: 2 << 20, Durability: SyncManual, CompactionWorkers: -1}
	db := openTest(t, opts)
	var b Batch
	for i := range n {
		if err := b.Put(fmt.Appendf(nil, "key%08d", i), nil); err != nil {
			t.Fatal(err)
		}
		if b.Len() == 1000 {
			if err := db.Write(context.Background(), &b); err != nil {
				t.Fatal(err)
			}
			b.Reset()
		}
		if i%200_000 == 0 {
			settle(t, db)
		}
	}
	settle(t, db)
	// The filters of the last change are made to fit in the background.
	testenv.WaitFor(t, "12.5 bits a key to be resident, 10 or a little more", func() bool {
		return 8*float64(db.Metrics().FilterMemory-1<<20)/n <= 12.5
	})
	m := db.Metrics()
	if m.CompactBytes > m.FlushBytes/2 {
		t.Errorf("%d bytes were compacted, although the tables should have been moved", m.CompactBytes)
	}
}

// With binary fuse filters in the last level, a store has at most 60 % of the false positives that
// it has with blocked filters, in the same filter memory. Metrics predicts both rates.
func TestFilters_FuseInTheLastLevel(t *testing.T) {
	if testenv.Race {
		t.Skip("too many keys for the race detector")
	}
	const n = 200_000
	var rates, memory [2]float64
	for i, kind := range []FilterKind{BlockedFilter, FuseFilter} {
		// The bits of fuse filters grow in steps of 1 1/8, and small tables need a little more for the
		// same step: 10.5 bits give these tables what 10 give tables of the usual size.
		opts := &Options{FilterBits: 10.5, MemtableSize: 512 << 10, TableSize: 2 << 20, Durability: SyncManual, CompactionWorkers: -1, Tuning: Tuning{LastLevelFilter: kind},
			testing: testOptions{baseSize: 256 << 10}}
		db := openTest(t, opts)
		for k := range n {
			if err := db.Put(fmt.Appendf(nil, "%08x", uint32(2*k)*0x9e3779b1), []byte("a value")); err != nil {
				t.Fatal(err)
			}
			if k%(n/4) == 0 {
				settle(t, db)
			}
		}
		settle(t, db)
		for k := range n {
			if _, err := db.Has(fmt.Appendf(nil, "%08x", uint32(2*k+1)*0x9e3779b1)); err != nil {
				t.Fatal(err)
			}
		}
		m := db.Metrics()
		rates[i], memory[i] = ratio(m.FilterFalsePositive, m.GetMisses), float64(m.FilterMemory)
		if predicted := m.PredictedFPR(); rates[i] > 1.15*predicted || rates[i] < 0.7*predicted {
			t.Errorf("%v: %v measured, %v predicted\n%v", kind, rates[i], predicted, m)
		}
		kinds := make(map[string]int)
		for _, info := range db.Inspect().Tables() {
			if info.Level == NumLevels-1 {
				kinds[info.FilterKind]++
			}
		}
		if fuse := kinds["fuse"]; (fuse > 0) != (kind == FuseFilter) || fuse > 0 && kinds["blocked"] > 1 { // a small one
			t.Errorf("%v: the last level has filters %v", kind, kinds)
		}
	}
	if rates[1] > 0.6*rates[0] || memory[1] > 1.05*memory[0] {
		t.Errorf("rates %v, memory %v: want fewer false positives in the same memory", rates, memory)
	}
	t.Logf("false positives a miss: %.5f blocked, %.5f fuse; filter memory %.0f and %.0f", rates[0], rates[1], memory[0], memory[1])
}
