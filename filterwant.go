package shale

import (
	"github.com/shaledb/shale/bloom"
	"github.com/shaledb/shale/compaction"
	"github.com/shaledb/shale/manifest"
)

// A wantedFilter is what the options call for in a table. Without bits they call
// for none.
type wantedFilter bloom.StaticOptions

// filterOverhead is about what a filter takes beside its bits a key: a trailer,
// and lines that are not full.
const filterOverhead = 96

// wantedFilter returns what the table that now describes would get if it were
// written anew where it stands.
func (db *DB) wantedFilter(v *manifest.Version, now manifest.Added) wantedFilter {
	memory := db.opts.FilterMemory
	if memory > 0 { // all are to fit into it: a little too much would cost a whole filter
		memory = max(memory-filterOverhead*int64(v.NumTables()), memory/2)
	}
	bits := compaction.FilterBitsForRun(v, now.Level, now.Run, db.planOptions(), db.opts.FilterBits, memory)
	return wantedFilter{Kind: db.filterKind(now.Level), BitsPerKey: bits, Hasher: db.hasher}
}

func (w wantedFilter) options() bloom.StaticOptions { return bloom.StaticOptions(w) }

// goodEnough is which part of the bits called for a filter may have.
const goodEnough = 0.9

// fits tells whether a filter will do: stored is the one in the file, resident
// what of it is in memory; nil: nothing. One that is larger than called for
// will, unless there is no room for it, or if memory is short none for others.
func (w wantedFilter) fits(stored, resident *bloom.Static, short bool) bool {
	if w.BitsPerKey <= 0 {
		return true
	}
	if stored == nil || stored.Kind() != w.Kind || stored.Hasher() != w.Hasher {
		return false
	}
	bits := min(w.BitsPerKey, bloom.MaxBits)
	least := goodEnough * bits
	if stored.BitsPerKey() < least {
		return false
	}
	short = short || resident == nil || resident.BitsPerKey() < least
	return !short || stored.BitsPerKey() <= bits/goodEnough
}

// filtersShort tells whether FilterMemory has no room for all filters of the
// tables as a whole.
func (db *DB) filtersShort(tables []*table) bool {
	var all int64
	for _, t := range tables {
		all += t.reader.StoredFilterBytes()
	}
	return db.opts.FilterMemory > 0 && all > db.opts.FilterMemory
}

// isMade tells whether stored is as the filter b, which was built as called for:
// of a few keys there is only one, and now and then none of the kind.
func (w wantedFilter) isMade(b []byte, stored *bloom.Static) bool {
	f, err := bloom.OpenStatic(b)
	return err == nil && stored != nil && f.Kind() == stored.Kind() && f.Hasher() == stored.Hasher() && f.SizeBytes() == stored.SizeBytes()
}

// storedFilter returns the filter in use as a whole: the resident one if nothing
// of it was released, else as it is in its file. Nil: there is none.
func (t *table) storedFilter() (*bloom.Static, error) {
	if f := t.filter(); f != nil && int64(f.SizeBytes()) == t.reader.StoredFilterBytes() {
		return f, nil
	}
	return t.reader.StoredFilter()
}

// storedBytes returns the size of a filter, 0 of none.
func storedBytes(f *bloom.Static) int64 {
	if f == nil {
		return 0
	}
	return int64(f.SizeBytes())
}
