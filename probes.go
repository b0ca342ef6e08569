package shale

import (
	"math"
	"sync"

	"github.com/shaledb/shale/filterplan"
)

// probeShares follows which part of the lookups asks the filters of each level
// in vain. The entropy rule gives a level whose filters are asked little, because
// most lookups find their key above it or in it, fewer bits, and the others more.
type probeShares struct {
	mu   sync.Mutex
	last lookupCounts // at the last update
	// Lookups since Open, and those that asked a level in vain, the old ones
	// weighing less.
	gets  float64
	asked [NumLevels]float64
}

// lookupCounts are counters that only grow.
type lookupCounts struct {
	gets  uint64
	asked [NumLevels]uint64
}

const (
	// probeHalfLife is after how many lookups one counts half.
	probeHalfLife = 1 << 22
	// probePrior is for how many lookups without a key one that is not known
	// yet counts: a store that was just opened is not taken to be as its first
	// few lookups are.
	probePrior = 100_000
	// leastProbe bounds what a lack of misses can take from a level: they may
	// come later, and filters stay until the next compaction.
	leastProbe = 1. / 16
)

// update counts and returns the share for each level, which is above 1 for one of
// several runs. It calls count with the lock held: of two that compact at once
// neither may come with older counts than the other.
func (p *probeShares) update(count func() lookupCounts) (shares filterplan.ProbeShares) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := count()
	keep := math.Exp2(-float64(now.gets-p.last.gets) / probeHalfLife)
	p.gets = p.gets*keep + float64(now.gets-p.last.gets)
	for level := range p.asked {
		p.asked[level] = p.asked[level]*keep + float64(now.asked[level]-p.last.asked[level])
		shares[level] = max(leastProbe, (p.asked[level]+probePrior)/(p.gets+probePrior))
	}
	p.last = now
	return shares
}

// lookupCounts sums the stripes.
func (c *counters) lookupCounts() (sum lookupCounts) {
	for i := range c.lookups {
		s := &c.lookups[i]
		sum.gets += s.gets.Load()
		for level := range sum.asked {
			sum.asked[level] += s.negatives[level].Load() + s.falsePos[level].Load()
		}
	}
	return sum
}
