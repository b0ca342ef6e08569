package shale

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/shaledb/shale/filterplan"
	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/vfs"
)

// A flushed table that Compact moves to the last level as it is keeps its rich filter while there is room.
// RebuildFilters leaves it, and replaces it once FilterMemory is short.
func TestRebuildFilters_OfAMovedTable(t *testing.T) {
	const n = 20_000
	opts := &Options{FS: vfs.NewMem(), Durability: SyncManual}
	db := openTest(t, opts)
	fill(t, db, n, 0)
	mustFlush(t, db)
	if err := db.Compact(t.Context(), Range{}); err != nil {
		t.Fatal(err)
	}
	check := func(rebuilt int, bits float64) {
		t.Helper()
		r, last := mustRebuild(t, db), db.Metrics().Levels[NumLevels-1]
		if r.Rebuilt != rebuilt || last.Tables != 1 || last.FilterBits < bits-1.5 || last.FilterBits > bits+0.5 {
			t.Errorf("%+v; %d tables with %.2f bits a key in the last level; want one with %v", r, last.Tables, last.FilterBits, bits)
		}
	}
	check(0, filterplan.FlushBits)
	closeTest(t, db)
	opts.FilterMemory = n * 10 / 8
	db = openTest(t, opts)
	check(1, 10)
}

// If FilterMemory has no room for all filters, RebuildFilters replaces those that are too large for it once,
// and a second call replaces none.
func TestRebuildFilters_FilterMemory(t *testing.T) {
	opts := bare(t, 20000)
	opts.FilterBits = 20
	db := openTest(t, opts)
	all := mustRebuild(t, db).FilterBytesAfter
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	for _, share := range []int64{2, 4, 1000} {
		opts.FilterMemory = all / share
		db := openTest(t, opts)
		before := db.Metrics().PredictedFPR()
		r := mustRebuild(t, db)
		again := mustRebuild(t, db)
		testenv.WaitFor(t, "filters to fit", func() bool { return db.Metrics().FilterMemory <= opts.FilterMemory })
		m := db.Metrics()
		t.Logf("FilterMemory %d: %+v, then %+v; %.3f reads a miss instead of %.3f", opts.FilterMemory, r, again, m.PredictedFPR(), before)
		if again.Rebuilt != 0 {
			t.Errorf("FilterMemory %d: a second call did %+v", opts.FilterMemory, again)
		}
		if m.PredictedFPR() > 1.2*before+0.002 {
			t.Errorf("FilterMemory %d: %.3f reads a miss, before %.3f", opts.FilterMemory, m.PredictedFPR(), before)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// RebuildFilters makes filters of the kind, with the hash function and the prefix rule of the options,
// whatever the tables had before. Answers are the same when the store is opened with other options.
func TestRebuildFilters_KindHashAndPrefixes(t *testing.T) {
	testenv.SkipRace(t)
	const n = 12000
	opts := bareOf(t, n, func(o *Options) { o.MemtableSize, o.TableSize = 512<<10, 256<<10 })
	for i, set := range []struct {
		hash FilterHash
		last FilterKind
		rule PrefixRule
	}{{XXH3, FuseFilter, FixedPrefix(8)}, {SipHash, BlockedFilter, FixedPrefix(8)}, {SipHash, FuseFilter, DelimitedPrefix('0', 2)}, {Murmur3, BlockedFilter, PrefixRule{}}} {
		opts.Tuning.FilterHash, opts.Tuning.LastLevelFilter, opts.Tuning.FilterPrefix = set.hash, set.last, set.rule
		db := openTest(t, opts)
		r, again := mustRebuild(t, db), mustRebuild(t, db)
		if r.Rebuilt != len(db.Inspect().Tables()) || again.Rebuilt != 0 {
			t.Errorf("set %d: first %+v, then %+v", i, r, again)
		}
		kinds := make(map[string]int)
		for _, info := range db.Inspect().Tables() {
			if info.Level == NumLevels-1 {
				kinds[info.FilterKind]++
			}
		}
		if (kinds["fuse"] > 0) != (set.last == FuseFilter) || kinds["none"] > 0 {
			t.Errorf("set %d: the last level has filters %v", i, kinds)
		}
		checkPrefixes(t, db, n)
		if got := db.tree.PrefixRules(); (set.rule == PrefixRule{}) != (len(got) == 0) || len(got) > 0 && !slices.Equal(got, []base.PrefixRule{set.rule.rule}) {
			t.Errorf("set %d: the prefix rules in use are %v, want only %v", i, got, set.rule)
		}
		if set.rule == FixedPrefix(8) && db.Metrics().PrefixNegative == 0 {
			t.Errorf("set %d: no scan passed over a table", i)
		}
		if err := db.Verify(context.Background()); err != nil {
			t.Errorf("set %d: %v", i, err)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		plain := *opts
		plain.Tuning.FilterHash, plain.Tuning.FilterPrefix = Murmur3, FixedPrefix(5)
		db = openTest(t, &plain)
		checkPrefixes(t, db, n)
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// checkPrefixes scans prefixes that are there and prefixes that are absent, and looks up keys.
func checkPrefixes(t *testing.T, db *DB, n int) {
	t.Helper()
	for i := 0; i < n+4000; i += 61 {
		prefix := fmt.Sprintf("key%04d", i/100)
		got := 0
		for _, err := range db.Scan(Prefix(prefix)) {
			if err != nil {
				t.Fatal(err)
			}
			got++
		}
		want := 0
		if i/100*100 < n {
			want = 100
		}
		if got != want {
			t.Fatalf("%d keys begin with %s, want %d", got, prefix, want)
		}
		for e := range db.Scan(Prefix(prefix + "x")) {
			t.Fatalf("%s begins with %sx", e.Key, prefix)
		}
		if has, err := db.Has(fmt.Appendf(nil, "key%06d", i)); has != (i < n) || err != nil {
			t.Fatalf("Has(key%06d) = %v, %v", i, has, err)
		}
	}
}
