package compaction

import (
	"math"
	"slices"

	"github.com/shaledb/shale/manifest"
)

// SeekCost is the number of bytes that a compaction may read and write in order to
// save one seek in one run. Such a seek reads one block that is not in the cache.
const SeekCost = 16 << 10

// LookupCost is the same for one point lookup that the filter of one run denies. A
// compaction handles 4 bytes in the 15 ns that this takes. It counts 16 times as
// much, because a caller waits for a lookup and nobody waits for a compaction:
// then a second of lookups pays for the compaction of some hundred megabytes.
const LookupCost = 64

// PickOftenRead returns a compaction of level 0 although no level is due, if credit
// is at least its price. Both are in bytes. The price is what the compaction reads
// and writes. The credit is what reads have wasted on the runs of level 0 since the
// level last changed: a seek looks into every run, because filters can't help it,
// and a lookup asks the filter of every run down to the one that has its key.
//
// The caller calls it when Pick returns nothing. While compactions
// are due or in flight, price is MaxInt64. It is a pure function.
func PickOftenRead(v *manifest.Version, o Options, busy InFlight, credit int64) (plan Plan, price int64) {
	p := newPicker(v, o, &busy)
	score := scores(v, p.opts, p.busy, p.shape)
	if len(v.Levels[0].Runs) == 0 || len(busy.plans) > 0 || slices.Max(score[:]) >= 1 {
		return Plan{}, math.MaxInt64
	}
	plan, ok := p.fromLevel0(level0Query{}, "often read")
	if !ok {
		return Plan{}, math.MaxInt64
	}
	price = SeekCost // the edit of the manifest
	if plan.Kind == Merging {
		price += 2 * plan.InputBytes()
	}
	if credit < price {
		return Plan{}, price
	}
	return plan, price
}
