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

// oftenRead is the reason of the plans of PickOftenRead.
const oftenRead = "often read"

// PickOftenRead returns a compaction of level 0 although no level is due, if credit
// is at least its price. Both are in bytes. The price is what the compaction reads
// and writes. The credit is what reads have wasted on the runs of level 0 since the
// level last changed: a seek looks into every run, because filters can't help it,
// and a lookup asks the filter of every run down to the one that has its key.
//
// If level 0 is empty, it returns a compaction that takes a part of the highest level down
// instead. near is the table into which a late seek has looked, so that the part is one
// that is read often; nil: none has. Only seeks earn credit for that. So a store in which
// there are many seeks between the writes ends with one run.
//
// The caller calls it when Pick returns nothing. While compactions
// are due or in flight, price is MaxInt64. It is a pure function.
func PickOftenRead(v *manifest.Version, o Options, busy InFlight, credit int64, near *manifest.Table) (plan Plan, price int64) {
	p := newPicker(v, o, &busy)
	score := scores(v, p.opts, p.busy, p.shape)
	if len(busy.plans) > 0 || slices.Max(score[:]) >= 1 {
		return Plan{}, math.MaxInt64
	}
	plan, ok := p.fromLevel0(level0Query{}, oftenRead)
	if len(v.Levels[0].Runs) == 0 {
		plan, ok = p.pickHighest(near)
	}
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

// pickHighest picks a part of the highest level with tables, if there is another run below: the
// table near and some after it. If near is not in the newest run of the level, pickLevel chooses.
func (p *picker) pickHighest(near *manifest.Table) (Plan, bool) {
	highest, runs := lastLevel, 0
	for level := lastLevel; level > 0; level-- {
		if n := len(p.v.Levels[level].Runs); n > 0 {
			highest, runs = level, runs+n
		}
	}
	if runs < 2 {
		return Plan{}, false
	}
	if inputs, ok := p.columnNear(highest, near); ok {
		return p.plan(highest, highest+1, inputs, oftenRead)
	}
	return p.pickLevel(highest, oftenRead)
}

// columnNear returns the column of a table of the newest run of a level, with some that follow it. ok
// is false if the table is nil, is not there any more, or can't be compacted now.
func (p *picker) columnNear(level int, table *manifest.Table) (inputs []Input, ok bool) {
	if table == nil {
		return nil, false
	}
	run := &p.v.Levels[level].Runs[0]
	at := run.Find(table.Smallest)
	if at == len(run.Tables) || run.Tables[at].Num != table.Num {
		return nil, false
	}
	inputs, below, ok := p.candidate(level, 0, part{at, at + 1})
	if ok {
		inputs, _ = p.withNext(level, 0, at, inputs, below)
	}
	return inputs, ok
}
