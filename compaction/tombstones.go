package compaction

import "github.com/shaledb/shale/manifest"

// denseTombstones is the share of tombstones among a table's entries from
// which on the table is compacted for their sake alone.
const denseTombstones = 0.25

// tombstoneShare returns the part of the entries that are tombstones.
func tombstoneShare(t *manifest.Table) float64 {
	if t.Entries == 0 {
		return 0
	}
	return float64(t.Tombstones) / float64(t.Entries)
}

// pickTombstones picks the table with the largest share of tombstones, if it
// is large, although no level is over its size: tombstones take space and time
// in every scan, and what they hide takes more. Above the last level such a
// table goes one level down. In the last level it is rewritten without them as
// soon as no snapshot needs them. Both end: a table can go down only so often,
// and a rewritten one has none left.
func (p *picker) pickTombstones() (Plan, bool) {
	var best *manifest.Table
	var bestLevel int
	var bestRun uint64
	for level := 1; level <= lastLevel; level++ {
		if p.v.Totals(level).Tombstones == 0 {
			continue
		}
		runs := p.v.Levels[level].Runs
		oldest := &runs[len(runs)-1]
		consider := func(t *manifest.Table, _ int64) {
			share := tombstoneShare(t)
			if share >= denseTombstones && (best == nil || share > tombstoneShare(best)) {
				best, bestLevel, bestRun = t, level, oldest.ID
			}
		}
		if level < lastLevel {
			p.sweep(level, dense(oldest.Tables), consider)
			continue
		}
		for _, t := range oldest.Tables {
			if t.Tombstones > 0 && t.MaxSeq <= p.opts.DropSeq && p.idleInLast(t) {
				consider(t, 0)
			}
		}
	}
	if best == nil {
		return Plan{}, false
	}
	return p.plan(bestLevel, min(bestLevel+1, lastLevel),
		[]Input{{Level: bestLevel, Run: bestRun, Tables: []*manifest.Table{best}}}, "tombstones")
}

// idleInLast says that no plan in flight reads t, of the last level, or writes
// where it is.
func (p *picker) idleInLast(t *manifest.Table) bool {
	return !p.busy.busy[t.Num] && !p.busy.writes(lastLevel, t.Smallest, t.Largest)
}

// dense returns the tables rich in tombstones.
func dense(tables []*manifest.Table) []*manifest.Table {
	var rich []*manifest.Table
	for _, t := range tables {
		if tombstoneShare(t) >= denseTombstones {
			rich = append(rich, t)
		}
	}
	return rich
}
