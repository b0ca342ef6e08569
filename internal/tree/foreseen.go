package tree

// Memory returns the sizes in bytes of the run's resident indexes and
// filters. epoch is that of the resident filters: see FilterSum.
func (r *Run) Memory(epoch uint64) (indexes, filters int64) {
	sum := r.sum(epoch)
	return sum.indexes, sum.bytes
}

// IndexOnDisk returns the bytes of the run's indexes that are not in memory. For the rest it is
// like Memory.
func (r *Run) IndexOnDisk(epoch uint64) int64 { return r.sum(epoch).onDisk }

// A foreseen is the sum of the predicted rates of a run's tables, each as many times as
// the table has keys. It is valid for one epoch, as a FilterSum is.
type foreseen struct {
	epoch uint64
	sum   float64
}

// PredictedFPR returns the chance that a lookup of an absent key that asks the run reads a
// block. It is that of the run's tables, weighted by their keys, because a lookup asks one of
// them. epoch is that of the resident filters. The rates of all tables are summed up the
// first time; later versions derive their sums from it.
func (r *Run) PredictedFPR(epoch uint64) float64 {
	sum := r.foreseenAfter(epoch)
	if sum == nil {
		sum = &foreseen{epoch: epoch}
		for _, t := range r.Tables {
			sum.add(t, 1)
		}
		r.foreseen.Store(sum)
	}
	// Sums and differences of many rates may leave a little less than nothing.
	return max(0, sum.sum/float64(max(r.Keys, uint64(len(r.Tables)))))
}

// add adds t's rate if by is 1, and takes it out if by is -1. A table that does not
// say how many keys it has counts for one. A nil foreseen stays unknown.
func (f *foreseen) add(t *Table, by float64) {
	if f != nil {
		f.sum += by * float64(max(t.Meta.Keys, 1)) * t.PredictedFPR()
	}
}

// foreseenAfter returns a copy of the run's sum, to derive that of the run after it from. It
// is nil if the sum is not known: nobody may ever ask for it.
func (r *Run) foreseenAfter(epoch uint64) *foreseen {
	if f := r.foreseen.Load(); f != nil && f.epoch == epoch {
		next := *f
		return &next
	}
	return nil
}
