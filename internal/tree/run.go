package tree

import (
	"github.com/shaledb/shale/internal/keys"
	"github.com/shaledb/shale/manifest"
)

// A Run is a sorted list of tables with disjoint key ranges, in a form that
// makes point lookups fast. It does not change.
type Run struct {
	Level  int
	Nth    int      // index of the run in its level; 0 is the newest
	Tables []*Table // in the order of keys
	Keys   uint64   // number of keys in all tables

	id    uint64            // in the manifest
	metas []*manifest.Table // the manifest's descriptions of the tables, with their sidecars

	bounds keys.Ranges
}

// layout returns a run with room for n tables, whose
// keys lie between first and last. put fills it.
func layout(level, nth int, first, last []byte, n int) *Run {
	return &Run{Level: level, Nth: nth, Tables: make([]*Table, n), bounds: keys.NewRanges(n, first, last)}
}

// put makes t the table with index i.
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

// From returns how many tables end before key.
func (r *Run) From(key []byte) int { return r.bounds.From(key, r) }

// Before returns how many tables begin before key.
func (r *Run) Before(key []byte) int { return r.bounds.Before(key, r) }

// Overlapping returns where in r.Tables those tables are that may hold keys from lower
// (inclusive) to upper (exclusive). A nil upper means no bound.
func (r *Run) Overlapping(lower, upper []byte) (from, end int) {
	from, end = 0, len(r.Tables)
	if len(lower) > 0 {
		from = r.From(lower)
	}
	if upper != nil {
		end = max(from, r.Before(upper))
	}
	return from, end
}

// NumTables returns the number of tables. With NumKeys, KeyRange, From and Rank it implements filterplan.KeyRun.
func (r *Run) NumTables() int { return len(r.Tables) }

// NumKeys returns the number of keys in all tables.
func (r *Run) NumKeys() uint64 { return r.Keys }

// KeyRange returns the smallest and the largest key of table i, and how many keys it has.
func (r *Run) KeyRange(i int) (smallest, largest []byte, keys uint64) {
	m := r.Tables[i].Meta
	return m.Smallest, m.Largest, m.Keys
}

// Rank returns about which share of the keys of table i is below key, from 0 to 1.
func (r *Run) Rank(i int, key []byte) float64 { return r.Tables[i].Reader.Rank(key) }
