package compaction

import (
	"github.com/shaledb/shale/filterplan"
	"github.com/shaledb/shale/manifest"
)

// FilterBitsForRun applies the entropy rule to a run of v, as FilterBitsForPlan
// does to the tables of a plan, in the tree as it is. Runs of level 0 get
// filterplan.FlushBits.
func FilterBitsForRun(v *manifest.Version, level int, run uint64, o Options, average float64, memory int64) float64 {
	if level == 0 {
		return filterplan.FlushBits
	}
	return FilterBitsForPlan(v, &Plan{To: level, outputRun: run}, o, average, memory)
}
