package compaction

import "github.com/shaledb/shale/manifest"

// overShare returns the share of t's entries that are tombstones, or have expired for all, from 0 to 1.
func (p *picker) overShare(t *manifest.Table) float64 {
	if t.Entries == 0 {
		return 0
	}
	return float64(t.OverAt(p.opts.Clock)) / float64(t.Entries)
}

// pickTombstones picks the table with the largest share of tombstones if it is dense
// (manifest.Table.DenseAt), although no level is above its target size. Values that
// have expired count as tombstones if the level has many of them. Tombstones
// cost space and time in every scan, and the data that they hide takes more space.
//
// Above the last level such a table goes one level down. In the last level it is
// rewritten without the tombstones as soon as no snapshot needs them. This ends, because
// a table can go down only a few times, and a rewritten table has no tombstones left.
func (p *picker) pickTombstones() (Plan, bool) {
	var best *manifest.Table
	var inputs []Input
	var from int
	for level := 1; level <= lastLevel; level++ {
		runs := p.v.Levels[level].Runs
		clock := p.rewriteClock(level)
		for r := len(runs) - 1; r >= 0; r-- {
			if sum := runs[r].Totals(); sum.Dense == 0 && sum.Expiring == 0 {
				continue
			}
			for at, t := range runs[r].Tables {
				if !t.DenseAt(clock) || best != nil && p.overShare(t) <= p.overShare(best) {
					continue
				}
				if level < lastLevel {
					if column, _, ok := p.candidate(level, r, part{at, at + 1}); ok {
						best, inputs, from = t, column, level
					}
				} else if t.MaxSeq <= p.opts.DropSeq && p.idleInLast(t) {
					best, inputs, from = t, []Input{{level: level, run: runs[r].ID, Tables: runs[r].Tables[at : at+1]}}, level
				}
			}
		}
	}
	if best == nil {
		return Plan{}, false
	}
	return p.plan(from, min(from+1, lastLevel), inputs, "tombstones")
}

// idleInLast reports whether no plan in flight reads t, a table
// of the last level, or writes to the last level in its range.
func (p *picker) idleInLast(t *manifest.Table) bool {
	return !p.busy.isBusy(t.Num) && !p.busy.writes(lastLevel, t.Smallest, t.Largest)
}

// AwaitsSnapshots reports whether Pick may have a plan for v once the oldest snapshot is closed:
// for tables of the last level from which pickTombstones takes the tombstones, or for range
// deletes. All other plans are the same with snapshots and without.
func AwaitsSnapshots(v *manifest.Version) bool {
	return v.Totals(lastLevel).Dense > 0 || !v.Spans.Empty()
}
