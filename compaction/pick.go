package compaction

import (
	"bytes"
	"cmp"
	"slices"

	"github.com/shaledb/shale/manifest"
)

// Pick returns the compaction that v needs most and that can run beside those
// in flight, or a plan of kind Nothing. It is a pure function.
func Pick(v *manifest.Version, o Options, busy InFlight) Plan {
	p := newPicker(v, o, &busy)
	score := scores(v, p.opts, p.busy, p.shape)
	levels := make([]int, lastLevel)
	for i := range levels {
		levels[i] = i
	}
	slices.SortStableFunc(levels, func(a, b int) int { return cmp.Compare(score[b], score[a]) })
	for _, level := range levels {
		if score[level] < 1 {
			break
		}
		var plan Plan
		var ok bool
		if level == 0 {
			plan, ok = p.pickLevel0()
		} else {
			plan, ok = p.pickLevel(level)
		}
		if ok {
			return plan
		}
	}
	plan, _ := p.pickTombstones()
	return plan
}

// PickLevel0 returns the compaction of level 0, if it is due and can run beside those
// in flight, or a plan of kind Nothing. It is a pure function.
func PickLevel0(v *manifest.Version, o Options, busy InFlight) Plan {
	p := newPicker(v, o, &busy)
	score := scores(v, p.opts, p.busy, p.shape)[0]
	if score < 1 {
		return Plan{}
	}
	plan, _ := p.pickLevel0()
	return plan
}

// A picker is what all ways to pick share.
type picker struct {
	v     *manifest.Version
	opts  Options
	busy  *InFlight
	shape shape
}

func newPicker(v *manifest.Version, o Options, busy *InFlight) *picker {
	o = o.withDefaults()
	return &picker{v: v, opts: o, busy: busy, shape: shapeOf(v, o, busy)}
}

// candidates is how many places of a level are compared. The best of so many is
// nearly as good as the best of all, and takes no time in a level of 100,000
// tables.
const candidates = 64

// pickLevel picks the column of a level that is the cheapest to push down: the
// one with the fewest bytes to rewrite in the next level for a byte of its
// own. Tombstones count for more than their size, since pushing them down
// frees what they hide.
func (p *picker) pickLevel(level int) (Plan, bool) {
	var best []Input
	var bestCost float64
	runs := p.v.Levels[level].Runs
	sum := p.v.Totals(level)
	try := func(n int) {
		r := 0
		for n >= len(runs[r].Tables) {
			n -= len(runs[r].Tables)
			r++
		}
		inputs, below, ok := p.candidate(level, r, n)
		if len(runs) == 1 && ok {
			inputs[0].Tables, below = p.withNext(level, n, below)
		}
		if !ok {
			return
		}
		var gain float64
		for _, in := range inputs {
			for _, t := range in.Tables {
				gain += float64(t.Size) * (1 + 2*tombstoneShare(t))
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
	// From another place each time that the level has changed.
	first, step := 0, 1
	if sum.Tables > candidates {
		first, step = int((sum.Entries*0x9e3779b97f4a7c15)>>33)%sum.Tables, sum.Tables/candidates
	}
	for i := 0; i < sum.Tables && i < candidates; i++ {
		try((first + i*step) % sum.Tables)
	}
	for n := 0; n < sum.Tables && best == nil; n++ { // all but a few are in use
		try(n)
	}
	if best == nil {
		return Plan{}, false
	}
	return p.plan(level, level+1, best, "size")
}

// sweep calls fn for each of the sorted tables of a level that could be
// compacted to the next level now, with the bytes that it overlaps there. It
// passes over both levels once.
func (p *picker) sweep(level int, tables []*manifest.Table, fn func(t *manifest.Table, below int64)) {
	next := p.v.Levels[level+1].Runs
	starts := make([]int, len(next))
	for _, t := range tables {
		if p.busy.isBusy(t.Num) || p.busy.writes(level+1, t.Smallest, t.Largest) {
			continue
		}
		below, free := int64(0), true
		for i := range next {
			others := next[i].Tables
			for starts[i] < len(others) && bytes.Compare(others[starts[i]].Largest, t.Smallest) < 0 {
				starts[i]++
			}
			for j := starts[i]; j < len(others) && bytes.Compare(others[j].Smallest, t.Largest) <= 0; j++ {
				below += others[j].Size
				free = free && !p.busy.isBusy(others[j].Num)
			}
		}
		if free {
			fn(t, below)
		}
	}
}

// plan completes a plan to compact inputs of level from into level to. It
// fails if a compaction in flight is in the way.
func (p *picker) plan(from, to int, inputs []Input, reason string) (Plan, bool) {
	plan := Plan{From: from, To: to, Inputs: inputs, Reason: reason, tableSize: p.opts.TableSize}
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

// addTarget adds the tables of level To that have to be merged with the inputs,
// and then more tables of level From if they fit between those without
// overlapping others.
func (p *picker) addTarget(plan *Plan) bool {
	below, run, ok := p.target(plan.To, span{plan.smallest, plan.largest}, plan.InputBytes())
	if !ok {
		return false
	}
	plan.outputRun = run
	for _, in := range below {
		plan.widen(in.Tables...)
	}
	// The level may have more runs than it may hold now: then newer ones than the output's
	// could overlap the neighbours that grow takes.
	single := p.opts.levelRuns(plan.To) == 1 && len(p.v.Levels[plan.To].Runs) == 1
	if plan.From > 0 && len(p.v.Levels[plan.From].Runs) == 1 && len(below) == 1 && single {
		p.grow(plan, below[0])
	}
	plan.Inputs = append(plan.Inputs, below...)
	return true
}

// grow takes the neighbours of the one table of level From whose ranges lie
// within that of the inputs below: their merge costs nothing but their own
// bytes. Requires: plan's range is that of all inputs.
func (p *picker) grow(plan *Plan, below Input) {
	in := &plan.Inputs[0]
	runs := p.v.Levels[plan.From].Runs
	all := runs[len(runs)-1].Tables
	size := manifest.TotalsOf(in.Tables).Bytes + manifest.TotalsOf(below.Tables).Bytes
	fits := func(t *manifest.Table) bool {
		return bytes.Compare(t.Smallest, plan.smallest) >= 0 && bytes.Compare(t.Largest, plan.largest) <= 0 &&
			!p.busy.isBusy(t.Num) && size+t.Size <= p.opts.maxBytes
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

// kind decides what has to be done with a plan's inputs.
func (p *picker) kind(plan *Plan) Kind {
	if len(plan.Inputs) > 1 || plan.inputTables() > 1 && plan.From == 0 {
		return Merging
	}
	total := plan.inputTotals()
	if total.Tombstones > 0 && plan.bottom() && p.settled(plan.Inputs[0].Tables) {
		if total.Tombstones == total.Entries {
			return Drop
		}
		return Merging
	}
	over := manifest.TotalsOf(plan.Grandparents).Bytes + manifest.TotalsOf(plan.Guards).Bytes
	if plan.From == plan.To || total.Bytes+over > p.opts.maxBytes {
		// A table moved over many others would be dear to merge with them; cut
		// at their bounds it is cheaper.
		return Merging
	}
	return Move
}

// settled says that no snapshot lies between entries of the tables.
func (p *picker) settled(tables []*manifest.Table) bool {
	for _, t := range tables {
		if t.MaxSeq > p.opts.DropSeq {
			return false
		}
	}
	return true
}
