package compaction

import (
	"bytes"

	"github.com/shaledb/shale/manifest"
)

// A level between level 0 and the last holds up to LevelRuns runs.
// Their IDs are 0 to LevelRuns-1, and a run with a higher ID is newer.
//
// The output of a compaction into such a level joins the run with the lowest possible
// ID: neither this run nor a newer one may have tables in the output's key range. So at
// each place of the key range the runs fill up from ID 0 to the highest. If no run is
// possible, the output is merged with tables of the newest run, and perhaps of older
// ones: see target. Places that share no keys are compacted independently of each other.

// levelRuns returns how many runs a level below level 0 may hold.
func (o *Options) levelRuns(level int) int {
	if level == lastLevel {
		return 1
	}
	return o.LevelRuns
}

// A span is a range of user keys. Both ends are inclusive. If hi is nil, the span is empty.
type span struct{ lo, hi []byte }

// widen extends s so that it covers tables. Requires:
// they are tables of one run, in the order of their keys.
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

// equal reports whether s and o are the same range.
func (s span) equal(o span) bool {
	return (s.hi == nil) == (o.hi == nil) && bytes.Equal(s.lo, o.lo) && bytes.Equal(s.hi, o.hi)
}

// target chooses the run of a level that the output of a compaction joins. size is the number
// of bytes that come into the level, and s is their key range. below has the tables of the
// level that must be merged with them, newest run first. run is the ID of the output's run.
//
// If the newest run has room in the range, below is empty. Otherwise its tables there are
// merged, and those of each older run as long as they are no larger than all that is merged
// before them. So an older run is rewritten only together with at least as much newer data.
//
// ok is false if a plan in flight uses one of these tables.
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

// candidate returns the column of some neighbouring tables (see column), and how many bytes of
// the next level lie in the column's key range. ok is false if the column can't be compacted
// now. run is an index into the level's runs.
func (p *picker) candidate(level, run int, of part) (inputs []Input, below int64, ok bool) {
	inputs, ok = p.column(level, run, of, p.maxBytes(level+1))
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

// below returns how many bytes of the next level lie in the range s. ok is
// false if nothing in that range can be compacted into the next level now.
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

// withNext returns the column of a table together with those of tables that follow it in its
// run. The tables below at the edges of the inputs' range lie only partly under the inputs,
// but are rewritten as a whole. More inputs share that cost. Tables are added as long as the
// inputs and the tables below them take no more than half of maxBytes.
//
// inputs is the column of the one table and below the number of bytes below it, and the results
// are those for all of them. A column with nothing below it stays as it is, because it can be
// moved instead of merged.
func (p *picker) withNext(level, run, at int, inputs []Input, below int64) ([]Input, int64) {
	for end := at + 2; below > 0 && end <= len(p.v.Levels[level].Runs[run].Tables); end++ {
		wider, more, ok := p.candidate(level, run, part{at, end})
		if !ok || sizeOf(wider)+more > p.maxBytes(level+1)/2 {
			break
		}
		inputs, below = wider, more
	}
	return inputs, below
}

// sizeOf returns the size of the tables of inputs in bytes.
func sizeOf(inputs []Input) (n int64) {
	for _, in := range inputs {
		n += manifest.TotalsOf(in.Tables).Bytes
	}
	return n
}

// A part is a slice of a run's tables: those with indexes in [from, to).
type part struct{ from, to int }

// partOf returns the part of r that overlaps s.
func partOf(r *manifest.Run, s span) part {
	from := r.Find(s.lo)
	return part{from, from + len(r.Overlaps(s.lo, s.hi))}
}

// column returns the tables of a level that go down together with neighbouring ones of
// one run, newest run first. Older tables of the level that overlap it must go too:
// otherwise it would sink below older data of its keys. Newer tables that overlap
// no other older table may go too, while the column has at most limit bytes. ok is
// false if a table that must go is in use.
func (p *picker) column(level, run int, of part, limit int64) (inputs []Input, ok bool) {
	runs := p.v.Levels[level].Runs
	parts := make([]part, len(runs))
	tables := func(i int) []*manifest.Table { return runs[i].Tables[parts[i].from:parts[i].to] }
	var s span
	s.widen(runs[run].Tables[of.from:of.to])
	for i := run; i < len(runs); i++ {
		parts[i] = partOf(&runs[i], s)
		if p.busy.anyBusy(tables(i)) {
			return nil, false
		}
		s.widen(tables(i))
	}
	p.addNewer(runs, parts, s, limit)
	for i := range runs {
		if len(tables(i)) > 0 {
			inputs = append(inputs, Input{level: level, run: runs[i].ID, Tables: tables(i)})
		}
	}
	return inputs, true
}

// addNewer extends the parts of a column, which covers the range s, by newer
// tables of the level. It adds a table only if the table overlaps nothing older
// that stays in the level, and while the column is no larger than limit.
//
// It goes from the oldest run to the newest. after and before are the
// nearest keys of tables left out so far, to the left and to the right
// of the column: a newer table may join only if it lies between them.
func (p *picker) addNewer(runs []manifest.Run, parts []part, s span, limit int64) {
	var size int64
	for i := range runs {
		size += manifest.TotalsOf(runs[i].Tables[parts[i].from:parts[i].to]).Bytes
	}
	var after, before []byte // what is added lies between these keys; nil: no bound
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
			if !p.busy.anyBusy(all[wide.from:wide.to]) && size+more <= limit {
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

// guards returns the tables of the next older run of level To that lie in the
// range of the plan's output. Runs without tables in that range are skipped.
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
