package shale

import (
	"math"

	"github.com/shaledb/shale/compaction"
	"github.com/shaledb/shale/filterplan"
	"github.com/shaledb/shale/internal/tree"
	"github.com/shaledb/shale/memtable"
)

// Metrics returns the counters since Open and the shape of the tree. On a
// closed store the shape is empty.
func (db *DB) Metrics() Metrics {
	m := Metrics{Levels: make([]LevelMetrics, NumLevels)}
	for i := range m.Levels {
		m.Levels[i].Level = i
	}
	if v := db.acquireView(); v != nil {
		v.addTo(&m)
		m.CompactionDebt = compaction.Debt(v.Meta, db.planOptions())
		m.LiveBytes = compaction.LiveBytes(v.Meta)
		db.tree.Release(v.Version)
	}
	db.counters.addTo(&m)
	for i := range m.Levels {
		l := &m.Levels[i]
		l.MeasuredFPR = ratio(l.FalsePositive, l.FilterAsked)
	}
	s := &db.tableStats
	m.BlockReads, m.BlockReadBytes = s.BlockReads.Load(), s.BlockReadBytes.Load()
	m.CacheHits, m.CacheMisses = s.CacheHits.Load(), s.CacheMisses.Load()
	m.CacheMemory = db.cache.Stats().Bytes
	m.FalsePositiveMemory = int64(db.falsePositives.Bytes())
	m.WALSyncs, m.WALBytes = db.logs.Stats()
	m.OpenSnapshots = int64(db.snapshots.len())
	return m
}

// addTo adds the shape of the view.
func (v *view) addTo(m *Metrics) {
	add := func(mem *memtable.Memtable) {
		m.MemtableMemory += mem.Size() + mem.FilterSize()
		m.MemtableBytes += mem.Size()
		m.MemtableEntries += int64(mem.Len())
	}
	add(v.mem)
	for _, imm := range v.imms {
		add(imm.mem)
	}
	var keys [NumLevels]float64
	spread := v.keySpread()
	for _, r := range v.Runs {
		l := &m.Levels[r.Level]
		l.Runs++
		n, fpr := m.addRun(l, r)
		keys[r.Level] += n
		l.PredictedFPR += fpr
		l.KeyShare += fpr * spread.Share(r)
	}
	for i := range m.Levels {
		l := &m.Levels[i]
		if keys[i] > 0 {
			l.FilterBits = 8 * float64(l.FilterBytes) / keys[i]
			l.KeyShare /= max(l.PredictedFPR, math.SmallestNonzeroFloat64)
		}
	}
}

// keySpread returns how the keys are spread that the view's tables have.
func (v *view) keySpread() filterplan.KeySpread {
	runs := make([]filterplan.KeyRun, len(v.Runs))
	for i, r := range v.Runs {
		runs[i] = r
	}
	return filterplan.NewKeySpread(runs)
}

// addRun adds a run and returns its number of keys and its predicted rate, which is
// that of its tables, weighted by their keys: a lookup asks one of them.
func (m *Metrics) addRun(l *LevelMetrics, r *tree.Run) (keys, fpr float64) {
	expected := 0.0
	for _, t := range r.Tables {
		l.Tables++
		l.Bytes += t.Meta.Size
		l.Entries += t.Meta.Entries
		l.Tombstones += t.Meta.Tombstones
		index, filter := t.Reader.MemoryBytes()
		m.IndexMemory += index
		m.FilterMemory += filter
		l.FilterBytes += filter
		n := float64(max(t.Meta.Keys, 1))
		keys += n
		expected += n * t.PredictedFPR()
	}
	return keys, expected / keys
}
