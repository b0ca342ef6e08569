package shale

import "github.com/shaledb/shale/bloom"

// missingFilter returns about how many bytes it takes to bring back t's filter,
// or its first unit; 0 if it is there, can't be used, or was never written.
func (t *table) missingFilter(firstUnit bool) int64 {
	if t.filterLost.Load() || t.reader.Sidecar() == nil && t.reader.FilterErr() != nil {
		return 0
	}
	f, whole := t.filter(), t.reader.StoredFilterBytes()
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

// filterMemory returns the bytes of the table's resident filter.
func (t *table) filterMemory() int64 {
	_, filter := t.reader.MemoryBytes()
	return filter
}

// filterMemory returns the bytes of the resident filters at an epoch.
func (v *version) filterMemory(epoch uint64) int64 {
	total := int64(0)
	for _, r := range v.runs {
		sum, known := r.filterSum(epoch)
		if !known {
			for _, t := range r.tables {
				sum.add(t, 1)
			}
			r.filters.Store(&sum)
		}
		total += sum.bytes
	}
	return total
}

// A filterSum is what the resident filters of a run take, and how many are not
// whole. It holds while the epoch of the residentFilters is the same: that counts up
// before and after each change, so a sum that was taken during one never holds.
type filterSum struct {
	epoch uint64
	bytes int64
	short int // tables whose filter is not all there
}

// filterSum returns the sum at an epoch; if it is not known, that of no tables.
func (r *run) filterSum(epoch uint64) (sum filterSum, known bool) {
	if f := r.filters.Load(); f != nil && f.epoch == epoch {
		return *f, true
	}
	return filterSum{epoch: epoch}, len(r.tables) == 0
}

// add adds t's filter; by is 1, or -1 to take it out.
func (s *filterSum) add(t *table, by int) {
	s.bytes += int64(by) * t.filterMemory()
	if t.missingFilter(false) > 0 {
		s.short += by
	}
}
