package tree

// Sums are the sums of a run while its resident filters change. They
// follow each change, so that they need not be taken again of all tables.
type Sums struct {
	Filters  FilterSum
	run      *Run
	foreseen *foreseen // nil: not known
}

// Sums returns the sums of r at an epoch.
func (r *Run) Sums(epoch uint64) Sums {
	return Sums{Filters: r.sum(epoch), run: r, foreseen: r.foreseenAfter(epoch)}
}

// Change calls change, which changes the filter of t, and corrects
// the sums. It returns by how many bytes the filter has grown.
func (s *Sums) Change(t *Table, change func()) int64 {
	before := s.Filters.bytes
	s.Filters.Add(t, -1)
	s.foreseen.add(t, -1)
	change()
	s.Filters.Add(t, 1)
	s.foreseen.add(t, 1)
	return s.Filters.bytes - before
}

// Keep makes s the sums of its run at an epoch. Requires: since Sums
// was called, filters were changed through Change only.
func (s *Sums) Keep(epoch uint64) {
	s.Filters.Epoch = epoch
	s.run.filters.Store(&s.Filters)
	if s.foreseen != nil {
		s.foreseen.epoch = epoch
		s.run.foreseen.Store(s.foreseen)
	}
}
