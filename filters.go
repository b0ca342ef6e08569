package shale

import (
	"slices"

	"github.com/shaledb/shale/sstable"
)

// fitFilters makes the resident filters of v fit FilterMemory. Second units go
// first, whole filters only if that is not enough, in both rounds those of the
// deepest level first: most of the memory is there, and in the levels above a
// byte of filter saves the most. The bytes stay in the files.
func (db *DB) fitFilters(v *version) {
	excess := -db.opts.FilterMemory
	if excess == 0 {
		return
	}
	for _, r := range v.runs {
		for _, t := range r.tables {
			excess += t.filterMemory()
		}
	}
	for _, release := range []func(*sstable.Reader) bool{(*sstable.Reader).DropSecondUnit, (*sstable.Reader).DropFilter} {
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

// filterMemory returns the bytes of the table's resident filter.
func (t *table) filterMemory() int64 {
	_, filter := t.reader.MemoryBytes()
	return filter
}
