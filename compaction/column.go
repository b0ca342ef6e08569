package compaction

import (
	"bytes"

	"github.com/shaledb/shale/manifest"
)

// Runs of a level between level 0 and the last have the numbers 0 to
// LevelRuns-1, oldest first. What comes down goes to the lowest that has nothing
// in its way, there or above; so at each place of the key range the runs are
// filled from 0 on, and at places that share no keys levels are compacted
// independently. If all are full there, it is merged with the newest.

// levelRuns returns how many runs a level may hold.
func (o *Options) levelRuns(level int) int {
	if level == lastLevel {
		return 1
	}
	return o.LevelRuns
}

// A span is a range of user keys, both ends inclusive. Nil hi: it is empty.
type span struct{ lo, hi []byte }

// widen makes s hold the tables, which are those of one run in their order.
func (s *span) widen(tables []*manifest.Table) {
	if len(tables) == 0 {
		return
	}
	if lo := tables[0].Smallest; s.hi == nil || bytes.Compare(lo, s.lo) < 0 {
		s.lo = lo
	}
	if hi := tables[len(tables)-1].Largest; s.hi == nil || bytes.Compare(hi, s.hi) > 0 {
		s.hi = hi
	}
}

// target returns what has to be merged with size bytes in the range s that come
// into a level, newest run first, and which run the output joins. Where all runs
// are filled that is the newest, and each next one as long as it is no larger
// than all before: so each time a byte is merged the run that it is in doubles.
// ok is false if one of the tables is in use.
func (p *picker) target(level int, s span, size int64) (below []Input, run uint64, ok bool) {
	newest := uint64(p.opts.levelRuns(level) - 1)
	runs := p.v.Levels[level].Runs
	for i := range runs {
		tables := runs[i].Overlaps(s.lo, s.hi)
		if len(tables) == 0 {
			continue
		}
		bytesOf := manifest.TotalsOf(tables).Bytes
		if id := runs[i].ID; id < newest && (len(below) == 0 || bytesOf > size) {
			return below, id + 1, true
		}
		if p.busy.anyBusy(tables) {
			return nil, 0, false
		}
		below = append(below, Input{level: level, run: runs[i].ID, Tables: tables})
		size += bytesOf
		s.widen(tables)
	}
	if level == lastLevel && len(runs) > 0 {
		return below, runs[0].ID, true
	}
	return below, 0, true
}

// candidate returns the column of a table, and how many bytes lie below it in the
// next level; ok is false if it can't be compacted now.
func (p *picker) candidate(level, run, at int) (inputs []Input, below int64, ok bool) {
	inputs, ok = p.column(level, run, at)
	if !ok {
		return nil, 0, false
	}
	var s span
	for _, in := range inputs {
		s.widen(in.Tables)
	}
	below, ok = p.below(level, s)
	return inputs, below, ok
}

// below returns how many bytes the level below one holds in the range s; ok is
// false if nothing can be compacted there now.
func (p *picker) below(level int, s span) (n int64, ok bool) {
	if p.busy.writes(level+1, s.lo, s.hi) {
		return 0, false
	}
	if _, _, ok = p.target(level+1, s, 0); !ok {
		return 0, false
	}
	next := p.v.Levels[level+1].Runs
	for i := range next {
		n += manifest.TotalsOf(next[i].Overlaps(s.lo, s.hi)).Bytes
	}
	return n, true
}

// withNext returns a table of a level of one run with those that follow it, as
// long as all and what lies below them are no more than half of maxBytes: the
// tables below that lie only partly under the inputs then count less. below is
// that of the one table, and then of all. One over nothing stays alone: it moves.
func (p *picker) withNext(level, at int, below int64) ([]*manifest.Table, int64) {
	all := p.v.Levels[level].Runs[0].Tables
	end := at + 1
	for size := all[at].Size; below > 0 && end < len(all) && !p.busy.isBusy(all[end].Num); end++ {
		var s span
		s.widen(all[at : end+1])
		size += all[end].Size
		more, ok := p.below(level, s)
		if !ok || size+more > p.opts.maxBytes/2 {
			break
		}
		below = more
	}
	return all[at:end], below
}

// A part is the tables of a run from one index to before another.
type part struct{ from, to int }

func partOf(r *manifest.Run, s span) part {
	from := r.Find(s.lo)
	return part{from, from + len(r.Overlaps(s.lo, s.hi))}
}

// column returns the tables of a level that go down with one of them, newest run
// first: older ones that it overlaps have to; newer ones that lie over these
// alone may. ok is false if one that has to is in use.
func (p *picker) column(level, run, at int) (inputs []Input, ok bool) {
	runs := p.v.Levels[level].Runs
	parts := make([]part, len(runs))
	tables := func(i int) []*manifest.Table { return runs[i].Tables[parts[i].from:parts[i].to] }
	var s span
	s.widen(runs[run].Tables[at : at+1])
	for i := run; i < len(runs); i++ {
		parts[i] = partOf(&runs[i], s)
		if p.busy.anyBusy(tables(i)) {
			return nil, false
		}
		s.widen(tables(i))
	}
	p.addNewer(runs, parts, s)
	for i := range runs {
		if len(tables(i)) > 0 {
			inputs = append(inputs, Input{level: level, run: runs[i].ID, Tables: tables(i)})
		}
	}
	return inputs, true
}

// addNewer extends the parts of a column, of the range s, by tables that overlap
// nothing older that is not in it.
func (p *picker) addNewer(runs []manifest.Run, parts []part, s span) {
	var size int64
	for i := range runs {
		size += manifest.TotalsOf(runs[i].Tables[parts[i].from:parts[i].to]).Bytes
	}
	var after, before []byte // what is added lies between; nil: no bound
	for i := len(runs) - 1; i >= 0; i-- {
		all := runs[i].Tables
		if i < len(runs)-1 {
			wide := partOf(&runs[i], s)
			for wide.from < wide.to && after != nil && bytes.Compare(all[wide.from].Smallest, after) <= 0 {
				wide.from++
			}
			for wide.from < wide.to && before != nil && bytes.Compare(all[wide.to-1].Largest, before) >= 0 {
				wide.to--
			}
			has := manifest.TotalsOf(all[parts[i].from:parts[i].to]).Bytes
			more := manifest.TotalsOf(all[wide.from:wide.to]).Bytes - has
			if !p.busy.anyBusy(all[wide.from:wide.to]) && size+more <= p.opts.maxBytes {
				parts[i] = wide
				size += more
			} else if has == 0 {
				parts[i] = part{wide.from, wide.from}
			}
		}
		if from := parts[i].from; from > 0 && (after == nil || bytes.Compare(all[from-1].Largest, after) > 0) {
			after = all[from-1].Largest
		}
		if to := parts[i].to; to < len(all) && (before == nil || bytes.Compare(all[to].Smallest, before) < 0) {
			before = all[to].Smallest
		}
	}
}

// guards returns the tables that the plan's output lies over in the next older
// run of its level.
func (p *picker) guards(plan *Plan) []*manifest.Table {
	runs := p.v.Levels[plan.To].Runs
	for i := range runs {
		if runs[i].ID >= plan.outputRun {
			continue
		}
		if tables := runs[i].Overlaps(plan.smallest, plan.largest); len(tables) > 0 {
			return tables
		}
	}
	return nil
}
