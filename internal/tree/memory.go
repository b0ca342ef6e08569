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
func (v *Version) FilterMemory() int64 { return v.memory().Filters }

// IndexMemory returns the size in bytes of all resident indexes of v.
func (v *Version) IndexMemory() int64 { return v.memory().Indexes }

func (v *Version) memory() (sum Memory) {
	for _, r := range v.Runs {
		m := r.Memory()
		sum.Filters, sum.Indexes = sum.Filters+m.Filters, sum.Indexes+m.Indexes
	}
	return sum
}

// A Memory says how many bytes the resident filters and indexes of some tables take, and how
// many bytes of their indexes, with all partitions, are not in memory.
type Memory struct{ Filters, Indexes, IndexOnDisk int64 }

// Memory returns the sums over the tables of r.
func (r *Run) Memory() (sum Memory) {
	for _, t := range r.Tables {
		index, filter := t.Reader.MemoryBytes()
		sum.Filters += filter
		sum.Indexes += index
		sum.IndexOnDisk += t.Reader.IndexOnDisk()
	}
	return sum
}

// PredictedFPR returns the chance that a lookup of an absent key that asks the run reads a
// block. It is that of the run's tables, weighted by their keys, because a lookup asks one of
// them. A table that does not say how many keys it has counts for one.
func (r *Run) PredictedFPR() float64 {
	sum := 0.0
	for _, t := range r.Tables {
		sum += float64(max(t.Meta.Keys, 1)) * t.PredictedFPR()
	}
	return sum / float64(max(r.Keys, uint64(len(r.Tables))))
}
