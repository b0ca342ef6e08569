package compaction

import (
	"math"
	"slices"

	"github.com/shaledb/shale/manifest"
)

// SeekCost is how many bytes a compaction may read and write to save a seek one
// block of one run that is not in the cache.
const SeekCost = 16 << 10

// PickOftenRead returns a compaction of level 0 although no level is due, if
// credit is at least its price: the bytes that it reads and writes. Credit is
// what seeks have wasted on the runs of level 0, which no filter spares them,
// since level 0 is as it is. So such compactions never cost more than what
// they came too late for. It is for when Pick has nothing to do; while
// compactions are in flight or due there is no price, MaxInt64. It is a pure
// function.
func PickOftenRead(v *manifest.Version, o Options, busy InFlight, credit int64) (plan Plan, price int64) {
	p := newPicker(v, o, &busy)
	score := scores(v, p.opts, p.busy, p.shape)
	if len(v.Levels[0].Runs) == 0 || len(busy.plans) > 0 || slices.Max(score[:]) >= 1 {
		return Plan{}, math.MaxInt64
	}
	plan, ok := p.fromLevel0(func(*manifest.Table) bool { return true }, "often read")
	if !ok {
		return Plan{}, math.MaxInt64
	}
	price = SeekCost // of the edit
	if plan.Kind == Merging {
		price += 2 * plan.InputBytes()
	}
	if credit < price {
		return Plan{}, price
	}
	return plan, price
}
