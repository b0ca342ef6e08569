package compaction

import (
	"bytes"

	"github.com/shaledb/shale/manifest"
)

// The runs of level 0 may overlap each other, and their tables may not overtake each other.
// So a compaction of level 0 is picked as a set of tables that is closed downwards: with
// each table it has all older tables of level 0 that overlap the set's range. The steps are:
//
//  1. oldestFirst lists the tables and blocks those that can't be
//     picked: tables in use, and newer tables that overlap these.
//  2. fromLevel0 starts a set with the oldest table that is wanted and
//     not blocked. add also picks the older tables that this table needs.
//  3. fromLevel0 goes on to newer tables that overlap the set, and
//     adds each with what it needs, up to maxBytes. If one can't
//     be added, it and the newer tables above it are blocked.
//
// A young table is a table of level 0 while a compaction of level 0 is picked.
type young struct {
	*manifest.Table
	run     int  // index of its run in the level; a lower index is newer
	picked  bool // it is an input
	blocked bool // it must not be an input: it is in use, or overlaps an older table that is blocked
}

// overlaps reports whether y has keys in [lo, hi].
func (y *young) overlaps(lo, hi []byte) bool {
	return bytes.Compare(y.Smallest, hi) <= 0 && bytes.Compare(y.Largest, lo) >= 0
}

// pickLevel0 picks tables of level 0, beginning with the oldest.
func (p *picker) pickLevel0() (Plan, bool) {
	return p.fromLevel0(func(*manifest.Table) bool { return true }, "level 0")
}

// fromLevel0 picks the oldest possible table of level 0 that is wanted,
// the older tables that must go with it, and newer tables that overlap
// these, up to maxBytes. The plan compacts them into the base level.
func (p *picker) fromLevel0(wanted func(*manifest.Table) bool, reason string) (Plan, bool) {
	all := p.oldestFirst()
	for i := range all {
		if all[i].blocked || !wanted(all[i].Table) {
			continue
		}
		set := level0Set{all: append([]young(nil), all...), max: p.opts.maxBytes}
		if !set.add(i) {
			continue
		}
		for j := i + 1; j < len(all); j++ {
			if set.all[j].overlaps(set.lo, set.hi) && !set.add(j) {
				set.block(j)
			}
		}
		if plan, ok := p.plan(0, p.shape.base, set.inputs(p.v.Levels[0].Runs), reason); ok {
			return plan, true
		}
	}
	return Plan{}, false
}

// oldestFirst lists the tables of level 0, oldest run first. Tables
// in use are blocked, and so are newer tables that overlap them.
func (p *picker) oldestFirst() []young {
	runs := p.v.Levels[0].Runs
	var all []young
	for i := len(runs) - 1; i >= 0; i-- {
		for _, t := range runs[i].Tables {
			all = append(all, young{Table: t, run: i})
		}
	}
	set := level0Set{all: all}
	for i := range all {
		if p.busy.isBusy(all[i].Num) {
			set.block(i)
		}
	}
	return all
}

// A level0Set is a growing set of tables of level 0. It never holds
// a table without all older tables that overlap the set's range.
type level0Set struct {
	all    []young // oldest first
	lo, hi []byte  // key range of the picked tables; nil hi: none is picked yet
	size   int64   // bytes of the picked tables
	max    int64   // limit of size
}

// block marks table i and all newer tables that could not be picked without it.
func (s *level0Set) block(i int) {
	s.all[i].blocked = true
	for j := i + 1; j < len(s.all); j++ {
		if s.all[j].blocked || s.all[j].run == s.all[i].run {
			continue
		}
		if s.all[j].overlaps(s.all[i].Smallest, s.all[i].Largest) {
			s.block(j)
		}
	}
}

// add picks table i and the older tables that must go with it, and reports whether
// it did. It changes nothing if one of them is blocked, or if the set would get
// larger than max. The first table of a set, with what it needs, may exceed max.
func (s *level0Set) add(i int) bool {
	lo, hi, size := s.lo, s.hi, s.size
	var fresh []int
	newest := i
	for j := range s.all {
		if s.all[j].picked {
			newest = max(newest, j)
		}
	}
	take := func(j int) {
		fresh = append(fresh, j)
		s.all[j].picked = true
		size += s.all[j].Size
		if hi == nil || bytes.Compare(s.all[j].Smallest, lo) < 0 {
			lo = s.all[j].Smallest
		}
		if hi == nil || bytes.Compare(s.all[j].Largest, hi) > 0 {
			hi = s.all[j].Largest
		}
	}
	take(i)
	ok := !s.all[i].blocked
	for grown := true; grown && ok; {
		grown = false
		for j := 0; j < newest && ok; j++ {
			if y := &s.all[j]; !y.picked && y.overlaps(lo, hi) {
				ok = !y.blocked
				take(j)
				grown = true
			}
		}
	}
	if ok && (s.hi == nil || size <= s.max) {
		s.lo, s.hi, s.size = lo, hi, size
		return true
	}
	for _, j := range fresh {
		s.all[j].picked = false
	}
	return false
}

// inputs returns the picked tables as the inputs of a plan, newest run first.
func (s *level0Set) inputs(runs []manifest.Run) []Input {
	inputs := make([]Input, len(runs))
	for _, y := range s.all {
		if y.picked {
			inputs[y.run].Tables = append(inputs[y.run].Tables, y.Table)
		}
	}
	n := 0
	for i, in := range inputs {
		if len(in.Tables) > 0 {
			inputs[n] = Input{level: 0, run: runs[i].ID, Tables: in.Tables}
			n++
		}
	}
	return inputs[:n]
}
