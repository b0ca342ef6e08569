package compaction

import (
	"bytes"
	"sort"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/spans"
	"github.com/shaledb/shale/manifest"
)

// pickCovered removes what range deletes have made needless, in one edit and without reading anything: tables of which
// every reader sees all entries covered, and range deletes that cover nothing any more.
//
// A table goes if range deletes that are newer than all of its entries cover its whole range of keys, and no snapshot lies
// between: one that sees an entry sees a range delete of it. Older versions, which such a table hid, are covered too.
//
// A range delete of number n is finished where every table has only entries above n, or none that n covers
// (manifest.Table.Clean), and where no snapshot is below n. It must stay as long as there is older data: and while it
// stays, no merge gives an entry under it number 0.
func (p *picker) pickCovered() (Plan, bool) {
	if p.v.Spans.Empty() || p.busy.dropsCovered() {
		return Plan{}, false
	}
	c := coverage{picker: p, gone: make(map[base.FileNum]bool)}
	c.finder.Add(p.v.Spans)
	plan := Plan{Kind: Drop, To: lastLevel, Reason: coveredReason}
	for level := range p.v.Levels {
		for _, run := range p.v.Levels[level].Runs {
			if tables := c.dropped(run); len(tables) > 0 {
				plan.Inputs = append(plan.Inputs, Input{level: level, run: run.ID, Tables: tables})
			}
		}
	}
	plan.Finished = c.finished()
	if plan.inputTables() == 0 && len(plan.Finished) == 0 {
		return Plan{}, false
	}
	return plan, true
}

const coveredReason = "range deletes"

// dropsCovered reports whether a plan of pickCovered is in flight. The next one waits for it.
func (f *InFlight) dropsCovered() bool {
	for _, p := range f.plans {
		if p.Reason == coveredReason {
			return true
		}
	}
	return false
}

// mostSpans is how many bounds of range deletes a version may have before tables are rewritten only to end some.
const mostSpans = 1 << 17

// pickHidden picks the table of which range deletes hide the largest part, if that is a quarter or more. If there are very
// many range deletes, it picks the one that lies under most of them. Like a table that is rich in tombstones, it goes one level
// down, or is rewritten in the last one. Its output is clean, so that this ends.
func (p *picker) pickHidden() (Plan, bool) {
	if p.v.Spans.Empty() || p.opts.Hidden == nil {
		return Plan{}, false
	}
	var best Plan
	bestShare, bestParts := 0.25, 0
	if p.v.Spans.Len() > mostSpans {
		bestShare = 0
	}
	last := p.v.Spans.Last()
	for level := 1; level <= lastLevel; level++ {
		runs := p.v.Levels[level].Runs
		for r := len(runs) - 1; r >= 0; r-- {
			for at, t := range runs[r].Tables {
				if t.Clean >= last || t.MinSeq > last {
					continue
				}
				share, parts := p.opts.Hidden(t, p.seen(t))
				if parts == 0 || share < bestShare || p.v.Spans.Len() > mostSpans && parts <= bestParts {
					continue
				}
				if plan, ok := p.rewrite(level, r, at); ok {
					best, bestParts = plan, parts
					if p.v.Spans.Len() <= mostSpans {
						bestShare = share
					}
				}
			}
		}
	}
	return best, best.Kind != Nothing
}

// mayCover reports whether a range delete may cover an entry of t.
func (p *picker) mayCover(t *manifest.Table) bool {
	for f := range p.v.Spans.Overlapping(t.Smallest, nil) {
		if bytes.Compare(f.Lower, t.Largest) > 0 {
			return false
		}
		if n := f.Newest(); n > t.Clean && n > t.MinSeq {
			return true
		}
	}
	return false
}

// rewrite plans to compact one table into the next level, or in the last level to rewrite it.
func (p *picker) rewrite(level, run, at int) (Plan, bool) {
	r := p.v.Levels[level].Runs[run]
	if level < lastLevel {
		column, _, ok := p.candidate(level, run, part{at, at + 1})
		if !ok {
			return Plan{}, false
		}
		return p.plan(level, level+1, column, "hidden")
	}
	if !p.idleInLast(r.Tables[at]) {
		return Plan{}, false
	}
	return p.plan(level, level, []Input{{level: level, run: r.ID, Tables: r.Tables[at : at+1]}}, "hidden")
}

// seen returns the number of the oldest reader that sees an entry of t.
func (p *picker) seen(t *manifest.Table) base.Seq {
	at := sort.Search(len(p.opts.Snapshots), func(i int) bool { return p.opts.Snapshots[i] >= t.MinSeq })
	if at < len(p.opts.Snapshots) {
		return p.opts.Snapshots[at]
	}
	return base.MaxSeq
}

type coverage struct {
	*picker
	finder spans.Finder
	gone   map[base.FileNum]bool // tables that the plan removes
}

// dropped returns the tables of a run that go. It looks only at those that begin in covered parts of the keys, and only at parts
// where a table begins: there may be very many of either.
func (c *coverage) dropped(run manifest.Run) (tables []*manifest.Table) {
	for next := 0; next < len(run.Tables); {
		f, some := c.part(run.Tables[next].Smallest)
		if !some {
			break
		}
		next += sort.Search(len(run.Tables)-next, func(i int) bool { return bytes.Compare(run.Tables[next+i].Smallest, f.Lower) >= 0 })
		for ; next < len(run.Tables); next++ {
			t := run.Tables[next]
			if f.Upper != nil && bytes.Compare(t.Smallest, f.Upper) >= 0 {
				break
			}
			if !c.busy.isBusy(t.Num) && c.hidden(t) {
				tables = append(tables, t)
				c.gone[t.Num] = true
			}
		}
	}
	return tables
}

// part returns the first fragment that has keys at key or behind it.
func (c *coverage) part(key []byte) (part spans.Fragment, ok bool) {
	for f := range c.v.Spans.Overlapping(key, nil) {
		return f, true
	}
	return part, false
}

// hidden reports whether each reader that sees an entry of t sees a range delete of it that is newer than all of t.
func (c *coverage) hidden(t *manifest.Table) bool {
	end, hidden := c.finder.Hidden(t.Smallest, t.MaxSeq, c.seen(t))
	return hidden && (end == nil || bytes.Compare(end, t.Largest) > 0)
}

// finished returns what is finished once the tables have gone that go. Where all numbers of neighbouring parts are finished,
// one entry stands for them.
//
// A table that keeps a range delete alive does so for all that begin before its end, but for those that are older. So it looks
// at about as many fragments as are finished, or as there are tables: to look at 100,000 over 200 tables at each pick took 50 ms.
func (c *coverage) finished() (all []manifest.Finished) {
	whole := false // the last one of all is finished with all its numbers
	for f, more := c.part(nil); more; {
		upto, until := c.finishedUpTo(f)
		if f.Oldest() > upto {
			f, more = c.v.Spans.Older(f.Lower, until, upto)
			continue
		}
		done := upto >= f.Newest()
		if n := len(all) - 1; n >= 0 && done && whole && bytes.Equal(all[n].Upper, f.Lower) && all[n].Upper != nil {
			all[n].Upper, all[n].Seq = f.Upper, max(all[n].Seq, f.Newest())
		} else {
			all = append(all, manifest.Finished{Lower: f.Lower, Upper: f.Upper, Seq: min(upto, f.Newest())})
			whole = done
		}
		if f.Upper == nil {
			break
		}
		f, more = c.part(f.Upper)
	}
	return all
}

// finishedUpTo returns the greatest number up to which range deletes of the keys of f are finished. Those that begin up to until
// are not finished beyond it either; nil: all that begin behind f.
func (c *coverage) finishedUpTo(f spans.Fragment) (upto base.Seq, until []byte) {
	upto = base.MaxSeq
	if len(c.opts.Snapshots) > 0 {
		upto = c.opts.Snapshots[0]
	}
	for level := range c.v.Levels {
		runs := c.v.Levels[level].Runs
		for i := range runs {
			for _, t := range runs[i].Overlaps(f.Lower, f.Upper) {
				if c.gone[t.Num] || f.Upper != nil && bytes.Compare(t.Smallest, f.Upper) >= 0 {
					continue
				}
				without := t.Clean
				if t.MinSeq > 0 {
					without = max(without, t.MinSeq-1)
				}
				if without < upto {
					upto, until = without, t.Largest
				}
			}
		}
	}
	return upto, until
}
