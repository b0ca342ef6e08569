package compaction

import (
	"math"

	"github.com/shaledb/shale/bloom"
)

// FlushBits is the filter bits a key of flushed runs. They hold little of the
// data, and every lookup asks them all.
const FlushBits = 24

const (
	// minBits is the least that a filter is worth having with, and the least
	// that package bloom makes. maxBits is where more bits change nothing that
	// a lookup would notice.
	minBits, maxBits = 4, 24

	// uselessFPR is the false positive rate above which a filter is left out:
	// its bits are better spent on the other runs.
	uselessFPR = 0.5
)

// A RunShare is what the entropy rule must know of a run.
type RunShare struct {
	Keys uint64
	// Probe is the share of lookups that ask the run and do not find their
	// key there. 0: unknown, taken for 1.
	Probe float64
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
// The factor of proportion is found by bisection on what the filters of package
// bloom really take, so that runs at the bounds of minBits and maxBits leave
// the rest to the others, and the sum is never above AverageBits a key.
func FilterBits(in FilterInput) float64 {
	return allocate(in.Runs, in.AverageBits)[in.Out]
}

// allocate returns the bits a key of each run.
func allocate(runs []RunShare, average float64) []float64 {
	bits := make([]float64, len(runs))
	total := 0.0
	for _, r := range runs {
		total += float64(r.Keys)
	}
	if average <= 0 || total == 0 {
		return bits
	}
	// With ln ρ = lo every run gets the most, with hi none gets any: a run has
	// at least one key and at most all.
	lo, hi := -2*maxBits-math.Log(total), math.Log(total)+2
	for range 60 {
		mid := (lo + hi) / 2
		if fill(bits, runs, total, mid) > average {
			lo = mid
		} else {
			hi = mid
		}
	}
	fill(bits, runs, total, hi)
	return bits
}

// fill sets the bits of each run for one factor of proportion and returns
// their average over all keys.
func fill(bits []float64, runs []RunShare, total, lnRho float64) float64 {
	sum := 0.0
	for i, r := range runs {
		share := float64(r.Keys) / total
		probe := r.Probe
		if probe <= 0 {
			probe = 1
		}
		bits[i] = bitsFor(math.Exp(lnRho) * share / probe)
		sum += bits[i] * share
	}
	return sum
}

// bitsFor returns the bits a key of a filter with false positive rate p.
func bitsFor(p float64) float64 {
	switch {
	case p > uselessFPR:
		return 0
	case p <= 0:
		return maxBits
	}
	return min(max(bloom.BitsForFPR(p), minBits), maxBits)
}
