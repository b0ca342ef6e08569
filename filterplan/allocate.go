package filterplan

import (
	"cmp"
	"math"
	"slices"
)

// Filters have at least minBits a key, the least that package bloom makes, and at
// most maxBits: more would change nothing that a lookup notices.
const minBits, maxBits = 4, 24

// A runShare is what the entropy rule must know of a run.
type runShare struct {
	keys uint64
	// probe is the share of lookups that ask the run's filters and do not find
	// their key in it. 0: it is not known, and taken for 1.
	probe float64
	// fuseKeys is how many keys a table of the run has, if its filters are binary
	// fuse filters. 0: they are blocked filters.
	fuseKeys int
}

// allocate returns how many bits a key the filters of each run get, by the entropy
// rule: of all ways to spend an average number of bits a key, it takes the one with
// which the fewest lookups of absent keys read a block. 0: the run gets no filters.
//
// That is when the false positive rate of each run is in proportion to its share of
// the keys (Dayan, Athanassoulis and Idreos, "Monkey", 2017, for any shape of tree).
// With the shares w and their entropy H, the rates then add up to
// e^H · e^(-average·ln²2), however many runs there are.
//
// Runs that would get less than minBits or more than maxBits get these, and what
// that saves or costs is divided among the others. If the memory does not suffice
// for filters of all runs, or is better spent otherwise, the runs with the most keys
// get none. The factor of proportion is found by bisection over what filters of
// package bloom really take, and the sum is never above the average.
func allocate(runs []runShare, average float64) []float64 {
	best := make([]float64, len(runs))
	total := 0.0
	for _, r := range runs {
		total += float64(r.keys)
	}
	if average <= 0 || total == 0 {
		return best
	}
	s := solver{shares: make([]*share, len(runs))}
	for i, r := range runs {
		s.shares[i] = &share{run: i, weight: float64(r.keys) / total, probe: r.probe, curve: theBlockedCurve()}
		if r.probe <= 0 {
			s.shares[i].probe = 1
		}
		// For few keys or few bits a fuse filter takes more memory than there is.
		// Such tables get blocked filters all the same (ChooseKind).
		if fuse := newFuseCurve(r.fuseKeys); r.fuseKeys > 0 && fuse[minWidth] <= average {
			s.shares[i].curve = fuse
		}
	}
	slices.SortFunc(s.shares, func(a, b *share) int {
		return cmp.Or(cmp.Compare(b.weight/b.probe, a.weight/a.probe), cmp.Compare(a.run, b.run))
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
	run    int     // its index in the argument of allocate
	weight float64 // its share of all keys
	probe  float64
	curve  curve
}

// A solver has the runs of an allocation, the largest first.
type solver struct {
	shares []*share
}

// solve gives no filters to the first runs, as many as without says, and divides
// average among the others. It returns how many blocks a lookup of an absent key
// then reads. ok is false if the memory does not suffice for filters of all others.
func (s *solver) solve(bits []float64, without int, average float64) (cost float64, ok bool) {
	// ρ is the factor of proportion. With ln ρ = lo every run gets maxBits, with
	// hi minBits.
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
