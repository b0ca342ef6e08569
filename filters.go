package shale

import (
	"slices"

	"github.com/shaledb/shale/sstable"
)

// fitFilters makes the resident filters of v fit FilterMemory. Second units go
// first, whole filters only if that is not enough, in both rounds those of the
// deepest level first: most of the memory is there, and in the levels above a
// byte of filter saves the most. The bytes stay in the files.
//
// Without FilterMemory only second units go, and only if the filters take much
// more than FilterBits: flushed tables have rich ones, and when keys come in
// order, those are moved down to the last level as they are.
func (db *DB) fitFilters(v *version) {
	releases := []func(*sstable.Reader) bool{(*sstable.Reader).DropSecondUnit, (*sstable.Reader).DropFilter}
	excess := -db.opts.FilterMemory
	if excess == 0 {
		releases = releases[:1]
		excess = -generousFilterMemory(v, db.opts.FilterBits)
	}
	for _, r := range v.runs {
		for _, t := range r.tables {
			excess += t.filterMemory()
		}
	}
	for _, release := range releases {
		for _, r := range slices.Backward(v.runs) {
			for _, t := range r.tables {
				if excess <= 0 {
					return
				}
				before := t.filterMemory()
				release(t.reader)
				excess -= before - t.filterMemory()
			}
		}
	}
}

// generousFilterMemory returns what filters with so many bits a key may take
// before it is worth releasing any.
func generousFilterMemory(v *version, bits float64) int64 {
	var keys uint64
	for _, r := range v.runs {
		for _, t := range r.tables {
			keys += t.meta.Keys
		}
	}
	return 1<<20 + int64(1.25*max(bits, 0)/8*float64(keys))
}

// filterMemory returns the bytes of the table's resident filter.
func (t *table) filterMemory() int64 {
	_, filter := t.reader.MemoryBytes()
	return filter
}
