package shale

import (
	"math"

	"github.com/shaledb/shale/bloom"
	"github.com/shaledb/shale/compaction"
	"github.com/shaledb/shale/filterplan"
	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/manifest"
	"github.com/shaledb/shale/sstable"
)

// wantedFilters answer what the options call for in the tables of a version.
type wantedFilters struct {
	db *DB
	// short: FilterMemory has no room for all filters as a whole.
	short bool
	plan  filterplan.Plan
}

func (db *DB) wantedFilters(v *version) *wantedFilters {
	policy := db.filterPolicy()
	if policy.Memory > 0 { // all are to fit into it: a little too much would cost a whole filter
		policy.Memory = max(policy.Memory-filterOverhead*int64(v.meta.NumTables()), policy.Memory/2)
	}
	tree := compaction.FilterTree(v.meta, nil, db.planOptions())
	w := &wantedFilters{db: db, plan: policy.Plan(tree, db.counters.probeShares())}
	var all int64
	for t := range v.tables() {
		all += t.reader.StoredFilterBytes()
	}
	w.short = db.opts.FilterMemory > 0 && all > db.opts.FilterMemory
	return w
}

// filterOverhead is about what a filter takes beside its bits a key: a trailer,
// and lines that are not full.
const filterOverhead = 96

// A wantedFilter is what the options call for in a table. Without bits they call
// for none.
type wantedFilter struct {
	bloom.StaticOptions
	rule  base.PrefixRule
	short bool
}

// of returns what the table that now describes would get if it were written anew
// where it stands.
func (w *wantedFilters) of(now manifest.Added) wantedFilter {
	bits := w.plan.Bits(now.Level, now.Run)
	return wantedFilter{
		StaticOptions: bloom.StaticOptions{Kind: w.db.filterPolicy().Kind(now.Level), BitsPerKey: bits, Hasher: w.db.hasher},
		rule:          w.db.opts.FilterPrefix.rule,
		short:         w.short,
	}
}

// goodEnough is which part of the bits called for a filter may have.
const goodEnough = 0.9

// fits tells whether a filter will do: stored is the one in the file, resident
// what of it is in memory; nil: nothing. It is judged by its false positives, of
// which the logarithm is in proportion to the bits. One that is larger than
// called for will do, unless there is no room for it, or if memory is short none
// for others.
func (w wantedFilter) fits(stored *sstable.LoadedFilter, resident *bloom.Static) bool {
	if w.BitsPerKey <= 0 {
		return true
	}
	if stored == nil {
		return false
	}
	f := stored.Filter()
	kind, fpr := filterplan.ChooseKind(int(min(f.Keys(), math.MaxInt32)), w.StaticOptions)
	if f.Kind() != kind || f.Hasher() != w.Hasher || stored.PrefixRule() != w.rule {
		return false
	}
	most := goodEnough * math.Log(fpr)
	if math.Log(f.PredictedFPR()) > most {
		return false
	}
	short := w.short || resident == nil || math.Log(resident.PredictedFPR()) > most
	return !short || f.BitsPerKey() <= min(w.BitsPerKey, bloom.MaxBits)/goodEnough
}

// isMade tells whether stored is as the filter that was built as called for: of a
// few keys there is only one, and now and then none of the kind.
func isMade(built sstable.BuiltFilter, stored *sstable.LoadedFilter) bool {
	f, err := bloom.OpenStatic(built.Bytes)
	if err != nil || stored == nil {
		return false
	}
	s := stored.Filter()
	return f.Kind() == s.Kind() && f.Hasher() == s.Hasher() && f.SizeBytes() == s.SizeBytes() && stored.PrefixRule() == built.Rule
}
