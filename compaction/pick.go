package compaction

import (
	"bytes"
	"slices"

	"github.com/shaledb/shale/manifest"
)

// Pick returns the most urgent compaction of v that can run at the same
// time as those in flight, or a plan of kind Nothing. What range deletes have made
// needless goes first, since that costs nothing. Then it tries the levels
// that are due in the order of their scores. If none gives a plan, it
// looks for a table with many tombstones, and for one of which range deletes
// hide much. It is a pure function.
func Pick(v *manifest.Version, o Options, busy InFlight) Plan {
	p := newPicker(v, o, &busy)
	if plan, ok := p.pickExpired(); ok {
		return plan
	}
	if plan, ok := p.pickCovered(); ok {
		return plan
	}
	score := scores(v, p.opts, p.busy, p.shape)
	levels := make([]int, lastLevel)
	for i := range levels { // in descending order of their scores
		levels[i] = i
		for j := i; j > 0 && score[levels[j]] > score[levels[j-1]]; j-- {
			levels[j], levels[j-1] = levels[j-1], levels[j]
		}
	}
	for _, level := range levels {
		if score[level] < 1 {
			break
		}
		var plan Plan
		var ok bool
		if level == 0 {
			plan, ok = p.fromLevel0(level0Query{}, "level 0")
		} else {
			plan, ok = p.pickLevel(level, "size")
		}
		if ok {
			return plan
		}
	}
	plan, ok := p.pickTombstones()
	if !ok {
		plan, _ = p.pickHidden()
	}
	return plan
}

// PickCovered returns what Pick does about range deletes alone, or a plan of kind Nothing. blocked says that another such
// plan is in flight.
func PickCovered(v *manifest.Version, o Options, busy InFlight) (plan Plan, blocked bool) {
	plan, _ = newPicker(v, o, &busy).pickCovered()
	return plan, busy.dropsCovered()
}

// PickLevel0 returns the compaction of level 0 if it is due and can run at the same time
// as those in flight. Otherwise it returns a plan of kind Nothing. It is a pure function.
func PickLevel0(v *manifest.Version, o Options, busy InFlight) Plan {
	p := newPicker(v, o, &busy)
	score := scores(v, p.opts, p.busy, p.shape)[0]
	if score < 1 {
		return Plan{}
	}
	plan, _ := p.fromLevel0(level0Query{}, "level 0")
	return plan
}

// A picker holds what all kinds of picks need.
type picker struct {
	v     *manifest.Version
	opts  Options
	busy  *InFlight
	shape shape
}

// newPicker returns a picker for v. It sets the defaults of o and computes the shape.
func newPicker(v *manifest.Version, o Options, busy *InFlight) *picker {
	o = o.forVersion(v)
	return &picker{v: v, opts: o, busy: busy, shape: shapeOf(v, o, busy)}
}

// maxBytes bounds the inputs of a compaction into a level. Where a table of that level lies only
// partly under the inputs, it is rewritten all the same, so larger tables need larger compactions.
func (p *picker) maxBytes(to int) int64 {
	return int64(float64(p.opts.maxBytes) / float64(p.opts.TableSize) * float64(p.shape.tableSize[to]))
}

// candidates is how many tables of a level pickLevel compares. To compare all of them writes 1 or
// 2 % less (docs/decisions/0010), but a pick among 1,000 tables would take 10 ms.
const candidates = 64

// pickLevel picks the column of a level that is cheapest to compact into
// the next level: the one with the fewest bytes to rewrite there for each
// of its own bytes. A tombstone counts for more than its size, because
// when it goes down, the space of the entries that it hides can be freed.
func (p *picker) pickLevel(level int, reason string) (Plan, bool) {
	var best []Input
	var bestCost float64
	runs := p.v.Levels[level].Runs
	sum := p.v.Totals(level)
	try := func(n int) { // the table with number n of all runs
		r := 0
		for n >= len(runs[r].Tables) {
			n -= len(runs[r].Tables)
			r++
		}
		inputs, below, ok := p.candidate(level, r, part{n, n + 1})
		if !ok {
			return
		}
		inputs, below = p.withNext(level, r, n, inputs, below)
		var gain float64
		for _, in := range inputs {
			for _, t := range in.Tables {
				gain += float64(t.Size) * (1 + 2*p.overShare(t))
			}
		}
		cost := float64(below) / gain
		if p.opts.order != nil {
			cost = p.opts.order(level, inputs, cost)
		}
		if best == nil || cost < bestCost {
			best, bestCost = inputs, cost
		}
	}
	// The first candidate is in another place each time that the level has changed.
	first, step := 0, 1
	if sum.Tables > candidates {
		first, step = int((sum.Entries*0x9e3779b97f4a7c15)>>33)%sum.Tables, sum.Tables/candidates
	}
	for i := 0; i < sum.Tables && i < candidates; i++ {
		try((first + i*step) % sum.Tables)
	}
	for i := 0; i < sum.Tables && best == nil; i++ { // the candidates are all in use
		try(i)
	}
	if best == nil {
		return Plan{}, false
	}
	return p.plan(level, level+1, best, reason)
}

// plan completes a plan to compact inputs of level from into
// level to. It returns false if a plan in flight is in the way.
func (p *picker) plan(from, to int, inputs []Input, reason string) (Plan, bool) {
	plan := Plan{From: from, To: to, Inputs: inputs, Reason: reason, tableSize: p.shape.tableSize[to]}
	for _, in := range inputs {
		if p.busy.anyBusy(in.Tables) {
			return Plan{}, false
		}
		plan.widen(in.Tables...)
	}
	if from != to {
		if !p.addTarget(&plan) {
			return Plan{}, false
		}
	} else {
		plan.outputRun = inputs[0].run
	}
	if p.busy.writes(to, plan.smallest, plan.largest) {
		return Plan{}, false
	}
	plan.Older = olderBelow(p.v, to, plan.outputRun, plan.smallest, plan.largest)
	plan.Guards = p.guards(&plan)
	if to < lastLevel {
		plan.Grandparents = p.v.Overlaps(to+1, plan.smallest, plan.largest)
		if len(p.v.Levels[to+1].Runs) > 1 {
			slices.SortFunc(plan.Grandparents, func(a, b *manifest.Table) int { return bytes.Compare(a.Largest, b.Largest) })
		}
	}
	plan.Kind = p.kind(&plan)
	return plan, true
}

// addTarget adds the tables of level To that must be merged with the
// inputs. Then it adds more tables of level From that lie within the range
// of these. It returns false if one of the tables of level To is in use.
func (p *picker) addTarget(plan *Plan) bool {
	below, run, ok := p.target(plan.To, span{plan.smallest, plan.largest}, plan.InputBytes())
	if !ok {
		return false
	}
	plan.outputRun = run
	for _, in := range below {
		plan.widen(in.Tables...)
	}
	// The level may have more runs than are allowed now. Runs newer than the output's
	// could then overlap the tables that grow adds, and would have to be inputs too.
	single := p.opts.levelRuns(plan.To) == 1 && len(p.v.Levels[plan.To].Runs) == 1
	if plan.From > 0 && len(p.v.Levels[plan.From].Runs) == 1 && len(below) == 1 && single {
		p.grow(plan, below[0])
	}
	plan.Inputs = append(plan.Inputs, below...)
	return true
}

// grow adds the neighbours of the tables of level From that lie within the
// range of the inputs so far. To merge them costs only their own bytes.
// Requires: level From has one run, and plan's range is that of all inputs.
func (p *picker) grow(plan *Plan, below Input) {
	in := &plan.Inputs[0]
	runs := p.v.Levels[plan.From].Runs
	all := runs[len(runs)-1].Tables
	size := manifest.TotalsOf(in.Tables).Bytes + manifest.TotalsOf(below.Tables).Bytes
	fits := func(t *manifest.Table) bool {
		return bytes.Compare(t.Smallest, plan.smallest) >= 0 && bytes.Compare(t.Largest, plan.largest) <= 0 &&
			!p.busy.isBusy(t.Num) && size+t.Size <= p.maxBytes(plan.To)
	}
	first := runs[len(runs)-1].Find(in.Tables[0].Smallest)
	last := first + len(in.Tables)
	for first > 0 && fits(all[first-1]) {
		first--
		size += all[first].Size
	}
	for last < len(all) && fits(all[last]) {
		size += all[last].Size
		last++
	}
	in.Tables = all[first:last]
}

// kind decides what to do with a plan's inputs. It
// requires that Older, Grandparents and Guards are set.
func (p *picker) kind(plan *Plan) Kind {
	if len(plan.Inputs) > 1 || plan.inputTables() > 1 && plan.From == 0 {
		return Merging
	}
	total := plan.inputTotals()
	if over := p.over(plan.Inputs[0].Tables); over > 0 && plan.bottom() && p.settled(plan.Inputs[0].Tables) {
		if total.Tombstones == total.Entries {
			return Drop
		}
		return Merging
	}
	over := manifest.TotalsOf(plan.Grandparents).Bytes + manifest.TotalsOf(plan.Guards).Bytes
	if plan.From == plan.To || total.Bytes+over > p.maxBytes(min(plan.To+1, lastLevel)) {
		// A table that overlaps many tables below it would be expensive to compact later.
		// Merge cuts it at their bounds instead, into tables that are cheaper to compact.
		return Merging
	}
	return Move
}

// settled reports whether every snapshot sees all entries of the tables.
func (p *picker) settled(tables []*manifest.Table) bool {
	for _, t := range tables {
		if t.MaxSeq > p.opts.DropSeq {
			return false
		}
	}
	return true
}
