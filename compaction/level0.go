package compaction

import (
	"bytes"
	"cmp"
	"slices"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/manifest"
)

// The runs of level 0 may overlap each other, and their tables may not overtake each other.
// So a compaction of level 0 is picked as a set of tables that is closed downwards: with
// each table it has all tables of the same run and of older ones that overlap the set's
// range. The steps are:
//
//  1. fromLevel0 starts a set with the oldest table that no plan in flight
//     is in the way of. add also picks the older tables that it needs.
//  2. addNewer goes on to newer tables that overlap the set, and adds each
//     run's with what they need, up to level0Bytes, until some can't be added.
//  3. addBeside adds tables that lie within the range of the tables of the base
//     level: these are rewritten in any case, so each costs its own bytes only.
//
// All of that looks at one run after the other. There are few: writers and ingestions wait while
// level 0 has many, unless the store has no automatic compactions.

// level0Tables bounds how many tables a set takes. Only ingestions leave more of them in level 0.
const level0Tables = 1000

// A young is a table of level 0.
type young struct {
	*manifest.Table
	run uint64 // the ID of its run
}

// A level0Block keeps a query away from the tables that overlap
// its range, except those of runs that are older than a run.
type level0Block struct {
	span
	from uint64 // the ID of that run
}

// A level0Query asks for a table of level 0 that overlaps its range,
// and no block. A range without hi has no upper bound.
type level0Query struct {
	span
	blocked []level0Block
	wanted  func(*manifest.Table) bool // the table fulfils it; nil: every table does
}

// oldestYoung returns a table of the oldest run of level 0 that has one which the query fits: the
// first by keys.
func (p *picker) oldestYoung(q level0Query) (y young, ok bool) {
	runs := p.v.Levels[0].Runs
	for r := len(runs) - 1; r >= 0; r-- {
		tables := runs[r].Overlaps(q.lo, q.hi)
		run := manifest.Run{Tables: tables}
		for i := 0; i < len(tables); {
			if b := q.blockOf(tables[i], runs[r].ID); b != nil {
				i = max(i+1, run.Find(b.hi)) // those between are blocked too
			} else if q.wanted == nil || q.wanted(tables[i]) {
				return young{tables[i], runs[r].ID}, true
			} else {
				i++
			}
		}
	}
	return young{}, false
}

// blockOf returns a block that keeps the query away from a table of a run, or nil.
func (q *level0Query) blockOf(t *manifest.Table, run uint64) *level0Block {
	for i := range q.blocked {
		b := &q.blocked[i]
		if run >= b.from && bytes.Compare(t.Smallest, b.hi) <= 0 && bytes.Compare(t.Largest, b.lo) >= 0 {
			return b
		}
	}
	return nil
}

// fromLevel0 picks the oldest possible table of level 0 that the query fits, the
// older tables that must go with it, and others that cost little more with it than
// alone, up to level0Bytes. The plan compacts them into the base level.
func (p *picker) fromLevel0(q level0Query, reason string) (Plan, bool) {
	q.blocked = p.level0Blocks()
	for {
		first, ok := p.oldestYoung(q)
		if !ok {
			return Plan{}, false
		}
		if plan, ok := p.level0With(first, reason); ok {
			return plan, true
		}
		// Neither the table can be picked, nor a newer one that overlaps it.
		q.blocked = append(q.blocked, level0Block{span{first.Smallest, first.Largest}, first.run})
	}
}

// level0Blocks returns the ranges of keys in which nothing can be compacted into
// the base level, because a plan in flight writes there or takes tables away.
func (p *picker) level0Blocks() (blocks []level0Block) {
	for _, plan := range p.busy.plans {
		if plan.To == p.shape.base {
			blocks = append(blocks, level0Block{span: span{plan.smallest, plan.largest}})
			continue
		}
		for _, in := range plan.Inputs {
			if in.level == p.shape.base {
				var s span
				s.widen(in.Tables)
				blocks = append(blocks, level0Block{span: s})
			}
		}
	}
	return blocks
}

// level0With plans a compaction of level 0 with the table first.
func (p *picker) level0With(first young, reason string) (Plan, bool) {
	set := level0Set{picker: p, max: p.opts.level0Bytes, picked: make(map[base.FileNum]bool)}
	if !set.add(first.run, first.Table) {
		return Plan{}, false
	}
	least := set.level0Mark
	set.addNewer()
	plan, ok := p.plan(0, p.shape.base, set.inputs(), reason)
	if !ok { // something is in the way of the newer tables
		set.undo(least)
		return p.plan(0, p.shape.base, set.inputs(), reason)
	}
	below := plan.Inputs[len(plan.Inputs)-1]
	if below.level > 0 && set.addBeside(span{plan.smallest, plan.largest}) {
		return p.plan(0, p.shape.base, set.inputs(), reason)
	}
	return plan, true
}

// A level0Set is a growing set of tables of level 0. It has all
// tables that overlap its range and are of runs up to newest.
type level0Set struct {
	picker *picker
	max    int64 // limit of size
	tables []young
	picked map[base.FileNum]bool // the same tables

	level0Mark
}

// A level0Mark is what a level0Set returns to if it has grown too far.
type level0Mark struct {
	n      int    // number of tables
	covers span   // their range of keys
	size   int64  // their bytes
	newest uint64 // ID of a run
}

// runs returns the runs of level 0.
func (s *level0Set) runs() []manifest.Run { return s.picker.v.Levels[0].Runs }

// undo makes the set what it was.
func (s *level0Set) undo(m level0Mark) {
	for _, t := range s.tables[m.n:] {
		delete(s.picked, t.Num)
	}
	s.tables, s.level0Mark = s.tables[:m.n], m
}

// add adds tables of one run, and those that must go with them, and reports whether it
// did. It changes nothing if one of them is in use, or if the set would get too large.
// The first table of a set, with what it needs, may be of any size.
func (s *level0Set) add(run uint64, tables ...*manifest.Table) bool {
	before := s.level0Mark
	s.newest = max(s.newest, run)
	take := func(t young) bool {
		if s.picked[t.Num] {
			return true
		}
		s.picked[t.Num] = true
		s.tables = append(s.tables, t)
		s.n++
		s.size += t.Size
		s.covers.widen([]*manifest.Table{t.Table})
		fits := before.n == 0 || s.size <= s.max && s.n <= level0Tables
		return fits && !s.picker.busy.isBusy(t.Num)
	}
	ok := true
	for _, t := range tables {
		ok = ok && take(young{t, run})
	}
	// What overlaps the range as it was is in the set already. Each round looks
	// at what overlaps the range that the round before it has left.
	for closed := before.covers; ok && !s.covers.equal(closed); {
		closed = s.covers
		runs := s.runs()
		for i := len(runs) - 1; i >= 0 && runs[i].ID <= s.newest; i-- {
			for _, t := range runs[i].Overlaps(closed.lo, closed.hi) {
				ok = ok && take(young{t, runs[i].ID})
			}
		}
	}
	if !ok {
		s.undo(before)
	}
	return ok
}

// addNewer adds what newer runs have in the range of the set, one run after the
// other, until some run has a table that cannot be added: the runs after it must wait for it.
func (s *level0Set) addNewer() {
	runs := s.runs()
	for i := len(runs) - 1; i >= 0; i-- {
		if runs[i].ID > s.newest && !s.add(runs[i].ID, runs[i].Overlaps(s.covers.lo, s.covers.hi)...) {
			return
		}
	}
}

// addBeside adds tables that lie behind the set, in the order of keys, but still
// in a range, as long as the set stays in that range. It reports whether it did.
func (s *level0Set) addBeside(in span) (added bool) {
	for s.n < level0Tables {
		behind := level0Query{span: span{s.covers.lo, in.hi}, blocked: []level0Block{{span: s.covers}}}
		next, ok := s.picker.oldestYoung(behind)
		before := s.level0Mark
		if !ok || !s.add(next.run, next.Table) {
			break
		}
		if bytes.Compare(s.covers.lo, in.lo) < 0 || bytes.Compare(s.covers.hi, in.hi) > 0 {
			s.undo(before)
			break
		}
		added = true
	}
	return added
}

// inputs returns the picked tables as the inputs of a plan, newest run first.
func (s *level0Set) inputs() (inputs []Input) {
	all := make([]*young, len(s.tables))
	for i := range s.tables {
		all[i] = &s.tables[i]
	}
	slices.SortFunc(all, func(a, b *young) int {
		return cmp.Or(cmp.Compare(b.run, a.run), bytes.Compare(a.Smallest, b.Smallest))
	})
	for i, t := range all {
		if i == 0 || t.run != all[i-1].run {
			inputs = append(inputs, Input{level: 0, run: t.run})
		}
		in := &inputs[len(inputs)-1]
		in.Tables = append(in.Tables, t.Table)
	}
	return inputs
}
