package compaction

import (
	"bytes"

	"github.com/shaledb/shale/manifest"
)

// PlaceIngest returns where tables that come from outside go, which hold the newest
// entries of all and lie in the range of user keys [lo, hi]: to the lowest level
// such that nothing in the range is there or above, nor will be by a plan in
// flight; not above the base level, since the levels there stay empty. If there is
// no such level the plan is for level 0, whose run is the caller's to number.
//
// A plan for another level holds as long as it is in flight; one for level 0 needs
// not be.
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

// inTheWay says whether a level holds something in the range, or will.
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
