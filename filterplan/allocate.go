package filterplan

import (
	"cmp"
	"math"
	"slices"
)

// FlushBits is the filter bits a key of flushed runs. They hold little of the
// data, and every lookup asks them all.
const FlushBits = 24

// minBits is the least that package bloom makes. maxBits is where more bits
// change nothing that a lookup would notice.
const minBits, maxBits = 4, 24

// A RunShare is what the entropy rule must know of a run.
type RunShare struct {
	Keys uint64
	// Probe is the share of lookups that ask the run and do not find their
	// key there. 0: unknown, taken for 1.
	Probe float64
	// FuseKeys is how many keys a table of the run has, if its filters are
	// binary fuse filters. 0: they are blocked.
	FuseKeys int
}

// FilterInput is the question of how many bits a key the filter of one of
// several runs should have.
type FilterInput struct {
	Runs        []RunShare
	Out         int     // index in Runs
	AverageBits float64 // over the keys of all runs
}

// FilterBits answers by the entropy rule: of all ways to spend AverageBits a
// key, it takes the one with which the fewest lookups of absent keys read a
// block. That is when each run's false positive rate is in proportion to its
// share of the keys (Dayan, Athanassoulis and Idreos, "Monkey", 2017, for any
// shape of tree); with w the shares and H their entropy the rates then add up to
// e^H · e^(-AverageBits·ln²2), however many runs there are. 0: no filter.
//
// Runs at the bounds of minBits and maxBits leave the rest to the others. If
// the memory is too little for filters on all runs, or better spent without,
// the runs with the most keys go without one. The factor of proportion is found
// by bisection on what filters of package bloom really take, and the sum is
// never above AverageBits a key.
func FilterBits(in FilterInput) float64 {
	return allocate(in.Runs, in.AverageBits)[in.Out]
}

// allocate returns the bits a key of each run.
func allocate(runs []RunShare, average float64) []float64 {
	best := make([]float64, len(runs))
	total := 0.0
	for _, r := range runs {
		total += float64(r.Keys)
	}
	if average <= 0 || total == 0 {
		return best
	}
	s := solver{shares: make([]share, len(runs))}
	for i, r := range runs {
		s.shares[i] = share{run: i, weight: float64(r.Keys) / total, probe: r.Probe, curve: rates()}
		if r.Probe <= 0 {
			s.shares[i].probe = 1
		}
		// Of few keys, or for few bits, tables get blocked filters all the same
		// (sstable.ChooseKind): fuse filters would take more than there is.
		if fuse := newFuseCurve(r.FuseKeys); r.FuseKeys > 0 && fuse[minWidth] <= average {
			s.shares[i].curve = fuse
		}
	}
	slices.SortStableFunc(s.shares, func(a, b share) int {
		return cmp.Compare(b.weight/b.probe, a.weight/a.probe)
	})
	bits := make([]float64, len(runs))
	leastCost := math.Inf(1)
	for without := range runs {
		if cost, ok := s.solve(bits, without, average); ok && cost < leastCost {
			leastCost = cost
			copy(best, bits)
		}
	}
	return best
}

// A share is a run as the solver sees it.
type share struct {
	run    int     // index in the input
	weight float64 // share of all keys
	probe  float64
	curve  curve
}

// A solver knows the runs of an allocation, the largest first.
type solver struct {
	shares []share
}

// solve gives the first runs no filter and divides average among the others.
// It returns the blocks that a lookup of an absent key then reads; ok is false
// if the others cannot all have a filter.
func (s *solver) solve(bits []float64, without int, average float64) (cost float64, ok bool) {
	// With ln ρ = lo every run gets the most, with hi the least.
	lo, hi := -60.0, 60.0
	if s.fill(bits, without, hi) > average {
		return 0, false
	}
	for range 50 {
		mid := (lo + hi) / 2
		if s.fill(bits, without, mid) > average {
			lo = mid
		} else {
			hi = mid
		}
	}
	s.fill(bits, without, hi)
	for _, r := range s.shares {
		cost += r.probe * math.Exp(r.curve.at(bits[r.run]))
	}
	return cost, true
}

// fill sets the bits of each run for one factor of proportion and returns
// their average over all keys.
func (s *solver) fill(bits []float64, without int, lnRho float64) float64 {
	sum := 0.0
	for i, r := range s.shares {
		if i < without {
			bits[r.run] = 0
			continue
		}
		bits[r.run] = r.curve.bitsFor(lnRho + math.Log(r.weight/r.probe))
		sum += bits[r.run] * r.weight
	}
	return sum
}
