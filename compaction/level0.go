package compaction

import (
	"bytes"

	"github.com/shaledb/shale/manifest"
)

// A young table is one of level 0 while a compaction of it is picked.
type young struct {
	*manifest.Table
	run     int  // index in the level, the lower the newer
	picked  bool // is an input
	blocked bool // must not be one: busy itself, or above a table that is blocked
}

func (y *young) overlaps(lo, hi []byte) bool {
	return bytes.Compare(y.Smallest, hi) <= 0 && bytes.Compare(y.Largest, lo) >= 0
}

// pickLevel0 picks tables of level 0, from the oldest on.
func (p *picker) pickLevel0() (Plan, bool) {
	return p.fromLevel0(func(*manifest.Table) bool { return true }, "level 0")
}

// fromLevel0 picks the oldest possible table of level 0 that is wanted, with
// all that has to go with it, and what newer tables overlap that, up to
// maxBytes.
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

// oldestFirst lists the tables of level 0. Those that are busy, and those
// above them, are blocked.
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

// A level0Set grows a set of tables so that it never holds one without all
// older ones that overlap the set's range.
type level0Set struct {
	all    []young // oldest first
	lo, hi []byte  // range of the picked; nil hi: none yet
	size   int64
	max    int64
}

// block marks table i and all newer ones that would need it.
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

// add picks table i and what has to go with it, or changes nothing. A set that
// was empty may exceed max.
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

// inputs returns what was picked as the inputs of a plan, newest run first.
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
