package shale

import (
	"fmt"
	"math"
	"math/bits"
	"strings"
	"sync"
	"sync/atomic"
	"text/tabwriter"
	"time"

	"github.com/shaledb/shale/compaction"
	"github.com/shaledb/shale/filterplan"
	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/memqueue"
	"github.com/shaledb/shale/internal/tree"
	"github.com/shaledb/shale/manifest"
	"github.com/shaledb/shale/memtable"
	"github.com/shaledb/shale/sstable"
)

// This file has Metrics, and what the store counts for them.

// NumLevels is the number of levels of the tree, level 0 included.
const NumLevels = 7

// Metrics have two sources: counters that only grow, and the shape of the view at the time
// of the call. Lookups count in stripes, without a lock, and Metrics adds the stripes up.
// Lookups that are under way may be counted in one field and not yet in another. A new
// counter belongs into Metrics.counters too, for Sub.

// Metrics are the counters of a store since Open, and its shape at the time of
// the call. Bytes and entries are plain numbers, rates are shares of one.
type Metrics struct {
	// Point lookups: Get, AppendValue, ViewValue, Has, PutIfAbsent, and the keys
	// of GetMany. A lookup that is not a hit, or not yet, counts as a miss. A PutIfAbsent is one
	// lookup, also if it looks again because another write came first; a Has before it is another one.
	Gets, GetHits, GetMisses uint64
	GetExpired               uint64 // of the misses: those that met a value which was over

	// What the filters of tables answered, one count for each table asked. A
	// FalsePositive is a 'maybe' after which the table's blocks did not hold
	// the key: measured, not estimated. FalsePositivesRemembered counts those
	// 'maybe's that needed no block because the same key had been proven
	// absent from that table before. A TruePositive is one that found the key, or
	// for a snapshot, did not but may have for what was written later.
	FilterNegative, FilterTruePositive, FilterFalsePositive uint64
	FalsePositivesRemembered                                uint64
	NoFilter                                                uint64 // tables looked into because they have no filter
	PrefixNegative                                          uint64 // tables that scans passed over because of Options.Tuning.FilterPrefix

	// Reads of blocks of tables. A cache miss is followed by a block read.
	BlockReads, BlockReadBytes uint64
	CacheHits, CacheMisses     uint64 // of blocks in the block cache

	// Writes.
	Writes, WrittenBytes     uint64 // operations, and their bytes of keys and values; ingested entries are among them
	WALSyncs, WALBytes       uint64 // syncs of the log, and the bytes that were written to it
	FlushBytes, CompactBytes uint64 // bytes of tables written by either
	CompactReadBytes         uint64 // bytes of tables read by compactions
	Flushes, Compactions     uint64 // how many have succeeded
	Ingests, IngestBytes     uint64 // calls of Ingest, and the bytes of their tables

	// Transactions that have written something: those that were committed, and those that ended with ErrConflict. Each try
	// of an Update counts. So (TxnCommits + TxnConflicts) / TxnCommits is the number of tries that a commit takes.
	TxnCommits, TxnConflicts uint64

	// Time that writers spent held back, by cause.
	StallTime         time.Duration // the sum of the following
	StallMemtables    time.Duration // waiting for flushes
	StallLevel0       time.Duration // waiting for compactions out of level 0
	StalledWrites     uint64        // how often writers waited so
	CorruptionsMet    uint64        // reads that ended in a CorruptionError
	UnusableFilters   uint64        // filters, in tables or next to them, that can't be used
	WorseFilters      uint64        // tables whose filter let pass many more absent keys than predicted
	BackgroundRetries uint64        // flushes and compactions that failed and are tried again

	// RangeDeletes is the number of ranges that DeleteRange has deleted and that may still cover something in tables,
	// cut into pieces where they overlap. RangeDeleteMemory is what they take, in bytes. RangeDeleteSkips counts the
	// tables that lookups did not search because one covers the key, although no filter denied it.
	RangeDeletes      int
	RangeDeleteMemory int64
	RangeDeleteSkips  uint64

	// Memory by owner, in bytes, now.
	MemtableMemory, CacheMemory, FilterMemory, IndexMemory, FalsePositiveMemory int64

	// IndexOnDisk are the bytes of indexes that are not in memory, because of
	// Options.Tuning.IndexMemory, while Loading, or in tables whose index has partitions: lookups
	// read them through the block cache. IndexReads counts the blocks of indexes, and
	// partitions, that were read from files for that.
	IndexOnDisk int64
	IndexReads  uint64
	// Loading says that filters and indexes which Open has left for later are still being
	// read in the background.
	Loading bool

	// What is under way now.
	Flushing, Compacting int
	CompactionDebt       int64 // bytes that compactions have to rewrite until the tree is in shape
	OpenIterators        int64 // those of scans included

	// Snapshots that are open, those of GetMany and of transactions that can write included, and how long the oldest has
	// been. As long as it is open, compactions keep what was overwritten since.
	OpenSnapshots     int64
	OldestSnapshotAge time.Duration
	// OpenTxns are transactions that can write and have not ended.
	OpenTxns int64

	// Entries and bytes of the memtables, which are in no level.
	MemtableEntries, MemtableBytes int64

	// LiveBytes is an estimate of what would be left of the tables if all of them were
	// merged. It comes from asking the filters of older tables for some keys of each run,
	// and is usually right within 10 %. It waits for no disk. The keys are those at the ends of tables
	// and those in some blocks, if these are in the system's memory (on Linux). Without the
	// second it is right if the keys of a run are all new, or all written again; a run that mixes
	// these counts wrong by its own size at most. A table without a filter in memory counts as holding
	// each key in its range.
	LiveBytes int64

	Levels []LevelMetrics // all seven, from level 0 down
}

// LevelMetrics describe one level.
type LevelMetrics struct {
	Level         int
	Runs, Tables  int
	Bytes         int64   // of its tables on disk
	Entries       uint64  // versions of keys, tombstones included
	Tombstones    uint64  // deletions
	Expiring      uint64  // entries that expire, those that are over included
	FilterBytes   int64   // of its filters in memory
	FilterBits    float64 // a key, averaged over its tables
	KeyShare      float64 // about which part of the store's keys lies in the key ranges of its tables; of several runs the mean, weighted by rates
	PredictedFPR  float64 // of a lookup that asks this level: the sum over its runs; see Metrics.PredictedFPR
	MeasuredFPR   float64 // false positives a lookup that asked this level's filters and was not answered there
	FilterAsked   uint64  // the counts behind MeasuredFPR: lookups of absent keys that asked a filter here
	FalsePositive uint64
}

// WriteAmp is the number of bytes written to log and tables for each byte of
// keys and values that the program wrote.
func (m Metrics) WriteAmp() float64 {
	return ratio(m.WALBytes+m.FlushBytes+m.CompactBytes+m.IngestBytes, m.WrittenBytes)
}

// SpaceAmp is the size of all tables over LiveBytes: 1 when nothing is stored twice.
func (m Metrics) SpaceAmp() float64 {
	var all int64
	for _, l := range m.Levels {
		all += l.Bytes
	}
	return ratio(uint64(all), uint64(m.LiveBytes))
}

// PredictedFPR is the expected number of false positives of a lookup of an
// absent key, assuming that lookups are distributed like the stored keys: the sum
// over the levels, each weighted by the share of lookups within its key ranges.
// A table counts for 1 if its filter is not in memory, also if lookups ask it in
// the file (ShippingOptions.FiltersInFiles). Measured rates include lookups that do.
func (m Metrics) PredictedFPR() float64 {
	sum := 0.0
	for _, l := range m.Levels {
		sum += l.KeyShare * l.PredictedFPR
	}
	return sum
}

func ratio(a, b uint64) float64 {
	if b == 0 {
		return 0
	}
	return float64(a) / float64(b)
}

// Sub returns the counters less those of an earlier call, which is what happened in
// between. Sizes, memory and shape are m's.
func (m Metrics) Sub(earlier Metrics) Metrics {
	d := m
	for i, p := range d.counters() {
		*p -= *earlier.counters()[i]
	}
	for i, p := range d.times() {
		*p -= *earlier.times()[i]
	}
	// A lookup under way at the earlier call was a miss then and may be a hit now.
	d.GetMisses = d.Gets - min(d.GetHits, d.Gets)
	d.Levels = append([]LevelMetrics(nil), m.Levels...)
	for i := range d.Levels {
		if i < len(earlier.Levels) {
			d.Levels[i].FilterAsked -= earlier.Levels[i].FilterAsked
			d.Levels[i].FalsePositive -= earlier.Levels[i].FalsePositive
			d.Levels[i].MeasuredFPR = ratio(d.Levels[i].FalsePositive, d.Levels[i].FilterAsked)
		}
	}
	return d
}

// counters lists the counts that only grow, for Sub. Those of levels are not among them.
func (m *Metrics) counters() []*uint64 {
	return []*uint64{
		&m.Gets, &m.GetHits, &m.GetMisses, &m.GetExpired,
		&m.FilterNegative, &m.FilterTruePositive, &m.FilterFalsePositive,
		&m.FalsePositivesRemembered, &m.NoFilter, &m.PrefixNegative, &m.RangeDeleteSkips,
		&m.BlockReads, &m.BlockReadBytes, &m.CacheHits, &m.CacheMisses, &m.IndexReads,
		&m.Writes, &m.WrittenBytes, &m.WALSyncs, &m.WALBytes,
		&m.FlushBytes, &m.CompactBytes, &m.CompactReadBytes, &m.Flushes, &m.Compactions, &m.Ingests, &m.IngestBytes,
		&m.TxnCommits, &m.TxnConflicts,
		&m.StalledWrites, &m.CorruptionsMet, &m.UnusableFilters, &m.WorseFilters, &m.BackgroundRetries,
	}
}

func (m *Metrics) times() []*time.Duration {
	return []*time.Duration{&m.StallTime, &m.StallMemtables, &m.StallLevel0}
}

// String prints the metrics as a table to read.
func (m Metrics) String() string {
	var s strings.Builder
	n := base.FormatNumber
	w := tabwriter.NewWriter(&s, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "level\truns\ttables\tsize\tentries\tfilters\tbits/key\tFPR predicted\tmeasured\t")
	for _, l := range m.Levels {
		if l.Tables == 0 {
			continue
		}
		measured := "-"
		if l.FilterAsked > 0 {
			measured = base.FormatPercent(l.MeasuredFPR)
		}
		fmt.Fprintf(w, "L%d\t%d\t%d\t%s\t%s\t%s\t%.1f\t%s\t%s\t\n", l.Level, l.Runs, l.Tables,
			base.FormatBytes(l.Bytes), n(l.Entries), base.FormatBytes(l.FilterBytes), l.FilterBits, base.FormatPercent(l.PredictedFPR), measured)
	}
	w.Flush()
	fmt.Fprintf(&s, "memtables: %s entries, %s\n", n(uint64(m.MemtableEntries)), base.FormatBytes(m.MemtableBytes))
	expired := ""
	if m.GetExpired > 0 {
		expired = fmt.Sprintf(", %s of them expired", n(m.GetExpired))
	}
	fmt.Fprintf(&s, "lookups: %s, %s found, %s absent%s\n", n(m.Gets), n(m.GetHits), n(m.GetMisses), expired)
	fmt.Fprintf(&s, "filters: %s no, %s true yes, %s false yes, %s of them remembered, %s tables without\n",
		n(m.FilterNegative), n(m.FilterTruePositive), n(m.FilterFalsePositive+m.FalsePositivesRemembered), n(m.FalsePositivesRemembered), n(m.NoFilter))
	if m.RangeDeletes > 0 || m.RangeDeleteSkips > 0 {
		fmt.Fprintf(&s, "range deletes: %s, %s; %s tables passed over\n", n(uint64(m.RangeDeletes)), base.FormatBytes(m.RangeDeleteMemory), n(m.RangeDeleteSkips))
	}
	fmt.Fprintf(&s, "blocks: %s read (%s); in the cache: %s yes, %s no\n",
		n(m.BlockReads), base.FormatBytes(int64(m.BlockReadBytes)), n(m.CacheHits), n(m.CacheMisses))
	ingested := ""
	if m.Ingests > 0 {
		ingested = ", ingested " + base.FormatBytes(int64(m.IngestBytes))
	}
	fmt.Fprintf(&s, "writes: %s (%s), log %s in %s syncs, flushed %s, compacted %s%s; write amp %.2f, space amp %.2f\n",
		n(m.Writes), base.FormatBytes(int64(m.WrittenBytes)), base.FormatBytes(int64(m.WALBytes)), n(m.WALSyncs),
		base.FormatBytes(int64(m.FlushBytes)), base.FormatBytes(int64(m.CompactBytes)), ingested, m.WriteAmp(), m.SpaceAmp())
	if m.TxnCommits+m.TxnConflicts > 0 {
		fmt.Fprintf(&s, "transactions: %s committed, %s conflicts\n", n(m.TxnCommits), n(m.TxnConflicts))
	}
	fmt.Fprintf(&s, "under way: %d flushes, %d compactions, debt %s; stalled %s (%s writes)\n",
		m.Flushing, m.Compacting, base.FormatBytes(m.CompactionDebt), base.FormatDuration(m.StallTime), n(m.StalledWrites))
	fmt.Fprintf(&s, "memory: memtables %s, cache %s, filters %s, indexes %s, false positives %s\n",
		base.FormatBytes(m.MemtableMemory), base.FormatBytes(m.CacheMemory), base.FormatBytes(m.FilterMemory),
		base.FormatBytes(m.IndexMemory), base.FormatBytes(m.FalsePositiveMemory))
	if m.IndexOnDisk > 0 {
		fmt.Fprintf(&s, "indexes on disk: %s, read %s times\n", base.FormatBytes(m.IndexOnDisk), n(m.IndexReads))
	}
	if m.Loading {
		fmt.Fprintln(&s, "loading: filters and indexes are still being read")
	}
	return s.String()
}

// Metrics returns the counters since Open and the shape of the tree. On a closed store the
// shape is empty.
func (db *DB) Metrics() Metrics {
	m := Metrics{Levels: make([]LevelMetrics, NumLevels)}
	for i := range m.Levels {
		m.Levels[i].Level = i
	}
	// The view comes before the counters: flushes and compactions that it shows were
	// counted before it was published.
	if v := db.mems.Acquire(); v != nil {
		addView(&m, v, db.filters.Loading())
		m.CompactionDebt = compaction.Debt(v.Meta, db.planOptions())
		db.tree.Release(v.Version)
	}
	m.Writes, m.WrittenBytes = db.commits.Written()
	db.counters.addTo(&m)
	for i := range m.Levels {
		l := &m.Levels[i]
		l.MeasuredFPR = ratio(l.FalsePositive, l.FilterAsked)
	}
	s := &db.counters.tables
	m.BlockReads, m.BlockReadBytes = s.BlockReads.Load(), s.BlockReadBytes.Load()
	m.CacheHits, m.CacheMisses = s.CacheHits.Load(), s.CacheMisses.Load()
	m.IndexReads = s.IndexReads.Load()
	m.Loading = db.filters.Loading()
	m.CacheMemory = db.cache.Stats().Bytes
	m.FalsePositiveMemory = int64(db.falsePositives.Bytes())
	m.WALSyncs, m.WALBytes = db.logs.Stats()
	if db.mems.Flushing() {
		m.Flushing = 1
	}
	open, oldest := db.snapshots.Open()
	m.OpenSnapshots, m.OldestSnapshotAge = int64(open), oldest
	m.OpenTxns = db.commits.Transactions()
	return m
}

// addView adds the shape of the view: memtables, levels and runs. loading says that some of
// its filters are still being read. Requires: m.Levels has all levels.
func addView(m *Metrics, v *memqueue.View, loading bool) {
	add := func(mem *memtable.Memtable) {
		m.MemtableMemory += mem.Size() + mem.FilterSize()
		m.MemtableBytes += mem.Size()
		m.MemtableEntries += int64(mem.Len())
	}
	add(v.Mem)
	for _, imm := range v.Imms {
		add(imm.Mem)
	}
	for range v.Meta.Spans.All() {
		m.RangeDeletes++
	}
	m.RangeDeleteMemory = v.Meta.Spans.Bytes()
	var keys [NumLevels]uint64
	estimates := v.Estimates(func() tree.Estimates { return estimate(v, loading) })
	m.LiveBytes = compaction.SumLive(v.Meta, estimates.LiveShares)
	for i, r := range v.Runs {
		l := &m.Levels[r.Level]
		sums := v.Meta.Levels[r.Level].Runs[r.Nth].Totals()
		l.Runs++
		l.Tables += sums.Tables
		l.Bytes += sums.Bytes
		l.Entries += sums.Entries
		l.Tombstones += sums.Tombstones
		l.Expiring += sums.Expiring
		keys[r.Level] += max(sums.Keys, uint64(sums.Tables))
		memory := r.Memory()
		m.IndexMemory += memory.Indexes
		m.IndexOnDisk += memory.IndexOnDisk
		m.FilterMemory += memory.Filters
		l.FilterBytes += memory.Filters
		fpr := r.PredictedFPR()
		l.PredictedFPR += fpr
		l.KeyShare += fpr * estimates.KeyShares[i]
	}
	for i := range m.Levels {
		l := &m.Levels[i]
		if keys[i] > 0 {
			l.FilterBits = 8 * float64(l.FilterBytes) / float64(keys[i])
			l.KeyShare /= max(l.PredictedFPR, math.SmallestNonzeroFloat64)
		}
	}
}

// estimate estimates which share of the bytes of each run is live, and which share of the keys the
// run spans.
func estimate(v *memqueue.View, loading bool) tree.Estimates {
	e := tree.Estimates{Partial: loading}
	mayHold := func(run int, key []byte) (bool, float64) { return v.Runs[run].MayHold(key) }
	sample := func(run, table, n int) [][]byte {
		keys, later := v.Runs[run].Tables[table].SampleKeys(n)
		e.Partial = e.Partial || later
		return keys
	}
	e.LiveShares = compaction.LiveShares(v.Meta, mayHold, sample)
	runs := make([]filterplan.KeyRun, len(v.Runs))
	for i, r := range v.Runs {
		runs[i] = r
	}
	spread := filterplan.NewKeySpread(runs)
	for _, r := range v.Runs {
		e.KeyShares = append(e.KeyShares, spread.Share(r))
	}
	return e
}

// counters are what Metrics reports. All are atomic or have a lock of their own. Those that
// every lookup or iterator touches are striped, so that processors write different cache lines.
// For the others, which are written less often, one atomic each is enough.
type counters struct {
	tables         sstable.Stats    // written by the readers of tables
	lookups        []lookupCounters // stripes: see base.Stripes
	iterators      base.Counter     // opened less closed
	prefixNegative base.Counter
	getExpired     base.Counter
	_              [64]byte // lookups read what is above, and do not write what follows

	ingested, ingestedPayload  atomic.Uint64 // entries, and bytes of keys and values
	flushBytes, compactBytes   atomic.Uint64
	compactReadBytes           atomic.Uint64
	flushes, compactions       atomic.Uint64
	ingests, ingestBytes       atomic.Uint64
	txnCommits, txnConflicts   atomic.Uint64
	compacting                 atomic.Int64
	stalledWrites              atomic.Uint64
	stallMemtables, stallLevel atomic.Int64 // nanoseconds
	corruptions                atomic.Uint64
	unusableFilters            atomic.Uint64
	worseFilters               atomic.Uint64
	retries                    atomic.Uint64
	probes                     probeCounter
}

// sampled reports whether the n-th lookup is one of those, one in tree.SampleEvery, that count the
// negatives of single tables. They are spread by the square root of two. Every sixteenth would always
// be of the same sort if lookups come in turns, such as a host and then its domain. The golden ratio
// would spread them too, but many programs scatter their keys by it: then all sampled lookups in a row
// would be for the same tables.
func sampled(n uint64) bool { return scatter(n) == 0 }

// scatter turns the number of a lookup into one below tree.SampleEvery.
func scatter(n uint64) int {
	high, _ := bits.Mul64(n*0x6a09e667f3bcc909, uint64(tree.SampleEvery))
	return int(high)
}

// lookupCounters are one stripe of what lookups count.
type lookupCounters struct {
	gets, hits    atomic.Uint64
	truePositives atomic.Uint64
	remembered    atomic.Uint64
	covered       atomic.Uint64 // tables that were not searched, because a range delete covers the key
	noFilter      atomic.Uint64
	negatives     [NumLevels]atomic.Uint64 // filters that said no, by level
	falsePos      [NumLevels]atomic.Uint64
	_             [64]byte // the next stripe begins in another cache line
}

// init makes the stripes. It is called once, before any lookup.
func (c *counters) init() { c.lookups = make([]lookupCounters, base.Stripes()) }

// lookup returns the stripe of the calling goroutine.
func (c *counters) lookup() *lookupCounters { return &c.lookups[base.StripeOf(len(c.lookups))] }

func (c *lookupCounters) negative(level int)      { c.negatives[level%NumLevels].Add(1) }
func (c *lookupCounters) falsePositive(level int) { c.falsePos[level%NumLevels].Add(1) }

// A probeCounter follows which share of the lookups asks the filters of each level in vain.
// Plans of filters use it (filterBits, wantedFilters).
type probeCounter struct {
	mu      sync.Mutex
	history filterplan.ProbeHistory // guarded by mu
}

// probeShares adds the lookups since the last call to the history, and returns the share of
// each level. empty says which levels of the current version have no table.
func (c *counters) probeShares(empty [NumLevels]bool) filterplan.ProbeShares {
	p := &c.probes
	p.mu.Lock()
	defer p.mu.Unlock()
	// The counts are taken under the lock. Of two compactions that ask at once, the second
	// must not have older counts than the first.
	now := c.lookupCounts()
	now.Empty = empty
	p.history = p.history.Next(now)
	return p.history.Shares()
}

// askedInVain returns how many tables of a level lookups have asked that did not have the key.
func (c *counters) askedInVain(level int) (n uint64) {
	for i := range c.lookups {
		n += c.lookups[i].negatives[level].Load() + c.lookups[i].falsePos[level].Load()
	}
	return n
}

// emptyLevels says which levels of v have no table.
func emptyLevels(v *manifest.Version) (empty [NumLevels]bool) {
	for level := range empty {
		empty[level] = len(v.Levels[level].Runs) == 0
	}
	return empty
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

// addTo sets the counters of m. Those of lookups it adds. Requires: m.Levels has all
// levels.
func (c *counters) addTo(m *Metrics) {
	for i := range c.lookups {
		s := &c.lookups[i]
		gets, hits := s.gets.Load(), s.hits.Load()
		m.Gets += gets
		m.GetHits += hits
		m.FilterTruePositive += s.truePositives.Load()
		m.FalsePositivesRemembered += s.remembered.Load()
		m.NoFilter += s.noFilter.Load()
		m.RangeDeleteSkips += s.covered.Load()
		for level := range m.Levels {
			negative, fp := s.negatives[level].Load(), s.falsePos[level].Load()
			m.FilterNegative += negative
			m.FilterFalsePositive += fp
			m.Levels[level].FilterAsked += negative + fp
			m.Levels[level].FalsePositive += fp
		}
	}
	m.GetMisses = m.Gets - min(m.GetHits, m.Gets)
	m.Writes += c.ingested.Load()
	m.WrittenBytes += c.ingestedPayload.Load()
	m.FlushBytes, m.CompactBytes = c.flushBytes.Load(), c.compactBytes.Load()
	m.CompactReadBytes = c.compactReadBytes.Load()
	m.Flushes, m.Compactions = c.flushes.Load(), c.compactions.Load()
	m.Ingests, m.IngestBytes = c.ingests.Load(), c.ingestBytes.Load()
	m.TxnCommits, m.TxnConflicts = c.txnCommits.Load(), c.txnConflicts.Load()
	m.Compacting = int(c.compacting.Load())
	m.StalledWrites = c.stalledWrites.Load()
	m.StallMemtables = time.Duration(c.stallMemtables.Load())
	m.StallLevel0 = time.Duration(c.stallLevel.Load())
	m.StallTime = m.StallMemtables + m.StallLevel0
	m.CorruptionsMet = c.corruptions.Load()
	m.UnusableFilters = c.unusableFilters.Load()
	m.WorseFilters = c.worseFilters.Load()
	m.PrefixNegative = c.prefixNegative.Load()
	m.GetExpired = c.getExpired.Load()
	m.BackgroundRetries = c.retries.Load()
	m.OpenIterators = int64(c.iterators.Load())
}
