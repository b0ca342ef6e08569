package tree

import "github.com/shaledb/shale/bloom"

// MissingFilter returns about how many bytes it takes to bring back t's filter,
// or its first unit; 0 if it is there, can't be used, or was never written.
func (t *Table) MissingFilter(firstUnit bool) int64 {
	if t.FilterLost.Load() || t.Reader.Sidecar() == nil && t.Reader.FilterErr() != nil {
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

// FilterMemory returns the bytes of the table's resident filter.
func (t *Table) FilterMemory() int64 {
	_, filter := t.Reader.MemoryBytes()
	return filter
}

// FilterMemory returns the bytes of the resident filters at an epoch.
func (v *Version) FilterMemory(epoch uint64) int64 {
	total := int64(0)
	for _, r := range v.Runs {
		sum, known := r.FilterSum(epoch)
		if !known {
			for _, t := range r.Tables {
				sum.Add(t, 1)
			}
			r.filters.Store(&sum)
		}
		total += sum.bytes
	}
	return total
}

// A FilterSum is what the resident filters of a run take, and how many are not whole. It
// holds while the epoch of the resident filters is the same. Whoever changes them counts the
// epoch up before and after, so a sum that was taken during a change never holds.
type FilterSum struct {
	Epoch uint64
	bytes int64
	Short int // tables whose filter is not all there
}

// FilterSum returns the sum at an epoch; if it is not known, that of no tables.
func (r *Run) FilterSum(epoch uint64) (sum FilterSum, known bool) {
	if f := r.filters.Load(); f != nil && f.Epoch == epoch {
		return *f, true
	}
	return FilterSum{Epoch: epoch}, len(r.Tables) == 0
}

// Add adds t's filter; by is 1, or -1 to take it out.
func (s *FilterSum) Add(t *Table, by int) {
	s.bytes += int64(by) * t.FilterMemory()
	if t.MissingFilter(false) > 0 {
		s.Short += by
	}
}
