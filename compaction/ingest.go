package compaction

import (
	"bytes"

	"github.com/shaledb/shale/manifest"
)

// PlaceIngest chooses the level for tables that are ingested. They hold the
// newest entries of the store, with user keys in [lo, hi]. The returned
// plan has the level in To and the run in OutputRun, and no inputs.
//
// It is the deepest level for which this holds: neither the level nor one above it
// has tables in the range, or gets some from a plan in flight. Nor is it above the
// base level, because the levels between level 0 and the base stay empty. If there
// is no such level, the tables go to level 0, and the caller numbers the run.
//
// A plan for another level than 0 is valid only while it is in
// the caller's InFlight. A plan for level 0 needs no reservation.
func PlaceIngest(v *manifest.Version, o Options, busy InFlight, lo, hi []byte) Plan {
	o = o.withDefaults()
	plan := Plan{smallest: lo, largest: hi, Reason: "ingest"}
	level := 0
	for !inTheWay(v, &busy, level, lo, hi) {
		plan.From, plan.To = level, level
		if level++; level == manifest.NumLevels {
			break
		}
	}
	if plan.To < shapeOf(v, o, &busy).base {
		plan.From, plan.To = 0, 0
	}
	if runs := v.Levels[plan.To].Runs; plan.To == lastLevel && len(runs) > 0 {
		plan.outputRun = runs[0].ID
	}
	return plan
}

// inTheWay reports whether a level holds tables in the
// range, or a plan in flight will write some there.
func inTheWay(v *manifest.Version, busy *InFlight, level int, lo, hi []byte) bool {
	if busy.writes(level, lo, hi) {
		return true
	}
	for i := range v.Levels[level].Runs {
		for _, t := range v.Levels[level].Runs[i].Overlaps(lo, hi) {
			if bytes.Compare(t.Smallest, hi) <= 0 {
				return true
			}
		}
	}
	return false
}
