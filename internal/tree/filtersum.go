package tree

import (
	"github.com/shaledb/shale/bloom"
	"github.com/shaledb/shale/internal/base"
)

// MissingFilter returns about how many bytes of memory it takes to
// bring back t's filter, or only its first unit. It returns 0 if
// that is in memory already, is damaged, or was never written.
func (t *Table) MissingFilter(firstUnit bool) int64 {
	if t.FilterLost.Load() || t.Reader.Sidecar() == nil && base.Lasts(t.Reader.FilterErr()) {
		return 0
	}
	f, whole := t.Filter(), t.Reader.StoredFilterBytes()
	switch {
	case f == nil && firstUnit:
		return int64(float64(whole) * bloom.FirstUnitShare(t.storedBits()))
	case f == nil:
		return whole
	case firstUnit:
		return 0
	}
	return whole - int64(f.SizeBytes())
}

// MissingIndex returns how many bytes of memory it takes to bring back the
// index of t. It returns 0 if the index is in memory, or is damaged.
func (t *Table) MissingIndex() int64 {
	if t.Reader.HasIndex() || base.Lasts(t.Reader.IndexErr()) {
		return 0
	}
	return t.Reader.IndexBytes()
}

// FilterMemory returns the size in bytes of the table's resident filter.
func (t *Table) FilterMemory() int64 {
	_, filter := t.Reader.MemoryBytes()
	return filter
}

// FilterMemory returns the size in bytes of all resident filters of v.
// epoch is the current epoch of the resident filters. Sums that were taken
// in this epoch are used again, and the others are computed and kept.
func (v *Version) FilterMemory(epoch uint64) int64 {
	total := int64(0)
	for _, r := range v.Runs {
		total += r.sum(epoch).bytes
	}
	return total
}

// IndexMemory returns the size in bytes of all resident
// indexes of v. For the rest it is like FilterMemory.
func (v *Version) IndexMemory(epoch uint64) int64 {
	total := int64(0)
	for _, r := range v.Runs {
		total += r.sum(epoch).indexes
	}
	return total
}

// sum returns the sum at an epoch. If it is not known, it is computed and kept.
func (r *Run) sum(epoch uint64) FilterSum {
	sum, known := r.FilterSum(epoch)
	if !known {
		for _, t := range r.Tables {
			sum.Add(t, 1)
		}
		r.filters.Store(&sum)
	}
	return sum
}

// A FilterSum says how much memory the resident filters and
// indexes of a run take, and how many of them are incomplete.
//
// It is valid as long as the epoch of what is resident stays the same. A
// change of the filters or indexes increments the epoch before and after.
// So a sum that was taken during a change is not valid after it.
type FilterSum struct {
	Epoch     uint64 // when the sum was taken
	bytes     int64
	indexes   int64
	onDisk    int64 // of indexes that are not in memory, with all partitions
	Short     int   // number of tables whose filter is not completely in memory
	Filters   int   // number of tables with a filter in memory
	Double    int   // number of these whose filter has a second unit in memory
	Unindexed int   // number of tables whose index is not in memory, and is not damaged
}

// FilterSum returns the sum of the run's filters at an epoch. If the sum is not known,
// the result is that of no tables. known is true for a run without tables, too.
func (r *Run) FilterSum(epoch uint64) (sum FilterSum, known bool) {
	if f := r.filters.Load(); f != nil && f.Epoch == epoch {
		return *f, true
	}
	return FilterSum{Epoch: epoch}, len(r.Tables) == 0
}

// Add adds t's filter and index if by is 1, and takes them out if by is -1.
func (s *FilterSum) Add(t *Table, by int) {
	index, filter := t.Reader.MemoryBytes()
	s.bytes += int64(by) * filter
	s.indexes += int64(by) * index
	s.onDisk += int64(by) * t.Reader.IndexOnDisk()
	if t.MissingIndex() > 0 {
		s.Unindexed += by
	}
	if t.MissingFilter(false) > 0 {
		s.Short += by
	}
	if f := t.Filter(); f != nil {
		s.Filters += by
		if f.Units() > 1 {
			s.Double += by
		}
	}
}
