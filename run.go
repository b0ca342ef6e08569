package shale

import (
	"bytes"
	"sort"
	"sync/atomic"

	"github.com/shaledb/shale/internal/keys"
	"github.com/shaledb/shale/manifest"
)

// A run is a sorted list of tables with disjoint key ranges, laid out for
// point lookups. It is immutable.
type run struct {
	level  int
	nth    int    // 0 is the newest run of its level
	id     uint64 // in the manifest
	tables []*table
	metas  []*manifest.Table // what the manifest says of them, sidecars included
	keys   uint64            // in all tables

	// refs counts the versions that have the run. Guarded by the mu of the tree.
	refs int
	// filters is what is known of the resident filters, nil or out of date
	// unless its epoch is that of the residentFilters.
	filters atomic.Pointer[filterSum]

	bounds keys.Ranges
}

// layout makes a run without its n tables, which put places.
func layout(level, nth int, first, last []byte, n int) *run {
	return &run{level: level, nth: nth, tables: make([]*table, n), bounds: keys.NewRanges(n, first, last)}
}

// put makes t table i.
func (r *run) put(i int, t *table) {
	r.tables[i] = t
	r.bounds.Set(i, t.meta.Smallest, t.meta.Largest)
}

// find returns the table whose range covers key, or nil.
func (r *run) find(key []byte) *table {
	i := r.bounds.Find(key, r)
	if i < 0 {
		return nil
	}
	return r.tables[i]
}

// Bounds implements keys.Bounded.
func (r *run) Bounds(i int) (smallest, largest []byte) {
	meta := r.tables[i].meta
	return meta.Smallest, meta.Largest
}

// overlapping returns the run's tables that may hold keys from lower on and below upper;
// an upper of nil is no limit.
func (r *run) overlapping(lower, upper []byte) []*table {
	tables := r.tables
	if len(lower) > 0 {
		tables = tables[sort.Search(len(tables), func(i int) bool { return bytes.Compare(tables[i].meta.Largest, lower) >= 0 }):]
	}
	if upper != nil {
		tables = tables[:sort.Search(len(tables), func(i int) bool { return bytes.Compare(tables[i].meta.Smallest, upper) >= 0 })]
	}
	return tables
}

// The following methods make a run a filterplan.KeyRun.

func (r *run) NumTables() int { return len(r.tables) }

func (r *run) KeyRange(i int) (smallest, largest []byte, keys uint64) {
	m := r.tables[i].meta
	return m.Smallest, m.Largest, m.Keys
}

func (r *run) Rank(i int, key []byte) float64 { return r.tables[i].reader.Rank(key) }
