package filterplan

import (
	"math"

	"github.com/shaledb/shale/internal/base"
)

// ProbeShares has for each level the share of lookups that ask its filters and do
// not find their key there, summed over the runs of the level: with several runs it
// may be above 1. 0: it is not known, and taken for all lookups.
//
// A lookup that finds its key asks only the filters above it in vain. So where most
// lookups find their key, the deep levels are rarely asked in vain. The entropy rule
// gives fewer bits to such filters, and more to the others.
type ProbeShares [base.NumLevels]float64

// LookupCounts counts lookups since a store was opened. Its numbers only grow.
type LookupCounts struct {
	Lookups uint64
	// InVain counts for each level how often its filters were asked by lookups that
	// did not find their key in the run.
	InVain [base.NumLevels]uint64
	// Empty says which levels have no table now. The lookups since the counts before
	// could not ask these, so they say nothing about tables that come there.
	Empty [base.NumLevels]bool
}

// A ProbeHistory is what is known of past lookups, where old lookups weigh less than
// recent ones. The zero ProbeHistory knows of none. It does not change: Next returns
// another.
type ProbeHistory struct {
	Counted LookupCounts // all lookups, as last counted
	// The same counts for each level, where each lookup has the weight that it has by now.
	Lookups [base.NumLevels]float64
	inVain  [base.NumLevels]float64
}

const (
	// probeHalfLife is the number of lookups after which a lookup weighs half.
	probeHalfLife = 1 << 22
	// assumedLookups is how many lookups of absent keys are assumed at the beginning.
	// The first few lookups of a store that was just opened may not be typical.
	assumedLookups = 100_000
	// minProbeShare is the least share that a level gets. Lookups of absent keys may
	// come later, and filters stay as they are until the next compaction.
	minProbeShare = 1. / 16
)

// Next returns the history with the lookups since it was last counted. now are counts
// that were taken after those of h.
func (h ProbeHistory) Next(now LookupCounts) ProbeHistory {
	recent := float64(now.Lookups - h.Counted.Lookups)
	keep := math.Exp2(-recent / probeHalfLife)
	next := ProbeHistory{Counted: now}
	for level := range next.inVain {
		next.Lookups[level] = h.Lookups[level] * keep
		if !now.Empty[level] {
			next.Lookups[level] += recent
		}
		next.inVain[level] = h.inVain[level]*keep + float64(now.InVain[level]-h.Counted.InVain[level])
	}
	return next
}

// Shares returns the share of each level.
func (h ProbeHistory) Shares() (shares ProbeShares) {
	for level := range shares {
		shares[level] = max(minProbeShare, (h.inVain[level]+assumedLookups)/(h.Lookups[level]+assumedLookups))
	}
	return shares
}
