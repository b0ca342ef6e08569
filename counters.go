package shale

import (
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/shaledb/shale/filterplan"
	"github.com/shaledb/shale/internal/base"
)

// counters are what Metrics reports. Those that every lookup touches are
// striped, so that lookups on different cores write different cache lines.
type counters struct {
	lookups [base.Shards]lookupCounters

	writes, writtenBytes       atomic.Uint64
	flushBytes, compactBytes   atomic.Uint64
	compactReadBytes           atomic.Uint64
	flushes, compactions       atomic.Uint64
	ingests, ingestBytes       atomic.Uint64
	flushing, compacting       atomic.Int64
	stalledWrites              atomic.Uint64
	stallMemtables, stallLevel atomic.Int64 // nanoseconds
	corruptions                atomic.Uint64
	unusableFilters            atomic.Uint64
	worseFilters               atomic.Uint64
	retries                    atomic.Uint64
	prefixNegative             atomic.Uint64
	probes                     probeCounter
	iterators                  atomic.Int64
	_                          [64]byte // what follows is not written by seeks
}

// sampleEvery is on one in how many lookups the negatives of single tables are
// counted. A power of two.
const sampleEvery = 16

// sampled tells whether the n-th lookup is one of those. They are spread by the
// golden ratio: every sixteenth would, of lookups that come in turns, such as a
// host and then its domain, always be of the same sort.
func sampled(n uint64) bool { return n*0x9e3779b97f4a7c15 <= math.MaxUint64/sampleEvery }

// lookupCounters are one stripe of what lookups count.
type lookupCounters struct {
	gets, hits    atomic.Uint64
	truePositives atomic.Uint64
	remembered    atomic.Uint64
	noFilter      atomic.Uint64
	negatives     [NumLevels]atomic.Uint64 // filters that said no, by level
	falsePos      [NumLevels]atomic.Uint64
	_             [64]byte // the next stripe begins on another line
}

// lookup returns the stripe of the calling goroutine.
func (c *counters) lookup() *lookupCounters { return &c.lookups[base.Shard()] }

func (c *lookupCounters) negative(level int)      { c.negatives[level%NumLevels].Add(1) }
func (c *lookupCounters) falsePositive(level int) { c.falsePos[level%NumLevels].Add(1) }

// A probeCounter follows which share of the lookups asks the filters of each level in
// vain.
type probeCounter struct {
	mu      sync.Mutex
	history filterplan.ProbeHistory // guarded by mu
}

// probeShares counts the lookups so far and returns the share of each level.
func (c *counters) probeShares() filterplan.ProbeShares {
	p := &c.probes
	p.mu.Lock()
	defer p.mu.Unlock()
	// The counts are taken under the lock: of two compactions that ask at once, the
	// second must not have older counts than the first.
	p.history = p.history.Next(c.lookupCounts())
	return p.history.Shares()
}

// lookupCounts sums the stripes.
func (c *counters) lookupCounts() (sum filterplan.LookupCounts) {
	for i := range c.lookups {
		s := &c.lookups[i]
		sum.Lookups += s.gets.Load()
		for level := range sum.InVain {
			sum.InVain[level] += s.negatives[level].Load() + s.falsePos[level].Load()
		}
	}
	return sum
}

// addTo adds the lookups' counts to m. Levels must have been laid out.
func (c *counters) addTo(m *Metrics) {
	for i := range c.lookups {
		s := &c.lookups[i]
		gets, hits := s.gets.Load(), s.hits.Load()
		m.Gets += gets
		m.GetHits += hits
		m.FilterTruePositive += s.truePositives.Load()
		m.FalsePositivesRemembered += s.remembered.Load()
		m.NoFilter += s.noFilter.Load()
		for level := range m.Levels {
			negative, fp := s.negatives[level].Load(), s.falsePos[level].Load()
			m.FilterNegative += negative
			m.FilterFalsePositive += fp
			m.Levels[level].FilterAsked += negative + fp
			m.Levels[level].FalsePositive += fp
		}
	}
	m.GetMisses = m.Gets - min(m.GetHits, m.Gets)
	m.Writes, m.WrittenBytes = c.writes.Load(), c.writtenBytes.Load()
	m.FlushBytes, m.CompactBytes = c.flushBytes.Load(), c.compactBytes.Load()
	m.CompactReadBytes = c.compactReadBytes.Load()
	m.Flushes, m.Compactions = c.flushes.Load(), c.compactions.Load()
	m.Ingests, m.IngestBytes = c.ingests.Load(), c.ingestBytes.Load()
	m.Flushing, m.Compacting = int(c.flushing.Load()), int(c.compacting.Load())
	m.StalledWrites = c.stalledWrites.Load()
	m.StallMemtables = time.Duration(c.stallMemtables.Load())
	m.StallLevel0 = time.Duration(c.stallLevel.Load())
	m.StallTime = m.StallMemtables + m.StallLevel0
	m.CorruptionsMet = c.corruptions.Load()
	m.UnusableFilters = c.unusableFilters.Load()
	m.WorseFilters = c.worseFilters.Load()
	m.PrefixNegative = c.prefixNegative.Load()
	m.BackgroundRetries = c.retries.Load()
	m.OpenIterators = c.iterators.Load()
}
