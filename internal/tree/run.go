package tree

import (
	"bytes"
	"sort"
	"sync/atomic"

	"github.com/shaledb/shale/internal/keys"
	"github.com/shaledb/shale/manifest"
)

// A Run is a sorted list of tables with disjoint key ranges, laid out for
// point lookups. It is immutable.
type Run struct {
	Level  int
	Nth    int      // 0 is the newest run of its level
	Tables []*Table // in the order of keys
	Keys   uint64   // in all tables

	id    uint64            // in the manifest
	metas []*manifest.Table // what the manifest says of the tables, sidecars included

	// refs counts the versions that have the run. Guarded by the mu of the tree.
	refs int
	// filters is what is known of the resident filters, nil or out of date
	// unless its epoch is the current one.
	filters atomic.Pointer[FilterSum]

	bounds keys.Ranges
}

// layout makes a run without its n tables, which put places.
func layout(level, nth int, first, last []byte, n int) *Run {
	return &Run{Level: level, Nth: nth, Tables: make([]*Table, n), bounds: keys.NewRanges(n, first, last)}
}

// put makes t table i.
func (r *Run) put(i int, t *Table) {
	r.Tables[i] = t
	r.bounds.Set(i, t.Meta.Smallest, t.Meta.Largest)
}

// Find returns the table whose range covers key, or nil.
func (r *Run) Find(key []byte) *Table {
	i := r.bounds.Find(key, r)
	if i < 0 {
		return nil
	}
	return r.Tables[i]
}

// Bounds implements keys.Bounded.
func (r *Run) Bounds(i int) (smallest, largest []byte) {
	meta := r.Tables[i].Meta
	return meta.Smallest, meta.Largest
}

// Overlapping returns the run's tables that may hold keys from lower on and below upper;
// an upper of nil is no limit.
func (r *Run) Overlapping(lower, upper []byte) []*Table {
	tables := r.Tables
	if len(lower) > 0 {
		tables = tables[sort.Search(len(tables), func(i int) bool { return bytes.Compare(tables[i].Meta.Largest, lower) >= 0 }):]
	}
	if upper != nil {
		tables = tables[:sort.Search(len(tables), func(i int) bool { return bytes.Compare(tables[i].Meta.Smallest, upper) >= 0 })]
	}
	return tables
}

// NumTables, KeyRange and Rank implement filterplan.KeyRun.
func (r *Run) NumTables() int { return len(r.Tables) }

// KeyRange returns the bounds of table i, both inclusive, and how many keys it has.
func (r *Run) KeyRange(i int) (smallest, largest []byte, keys uint64) {
	m := r.Tables[i].Meta
	return m.Smallest, m.Largest, m.Keys
}

// Rank returns which share of the keys of table i is below key, from 0 to 1.
func (r *Run) Rank(i int, key []byte) float64 { return r.Tables[i].Reader.Rank(key) }
