package compaction

import (
	"math"
	"slices"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/manifest"
)

// merge returns the tables that a merge of the plan's inputs writes.
func (s *simulation) merge(p *Plan) []*manifest.Table {
	bits := s.filters(p).Bits(p.To, p.OutputRun())
	var tables []*manifest.Table
	for _, c := range s.cut(p, s.pieces(p)) {
		minSeq, maxSeq := base.MaxSeq, base.Seq(0)
		for _, in := range p.Inputs {
			run := manifest.Run{Tables: in.Tables}
			for _, t := range run.Overlaps(simKey(c.lo), simKey(c.hi()-1)) {
				minSeq, maxSeq = min(minSeq, t.MinSeq), max(maxSeq, t.MaxSeq)
			}
		}
		tables = append(tables, s.table(c, minSeq, maxSeq, bits))
	}
	return tables
}

// A piece is a range of keys in which the entries of each input are spread
// evenly, with the entries that are left when the inputs are merged.
type piece struct {
	lo uint64
	segment
}

// pieces merges the inputs piece by piece.
func (s *simulation) pieces(p *Plan) []piece {
	var points []uint64
	runs := make([][]piece, len(p.Inputs)) // of each what has entries, ascending
	for i, in := range p.Inputs {
		for _, t := range in.Tables {
			c := s.content[t.Num]
			lo := c.lo
			points = append(points, lo)
			for _, seg := range c.segs {
				if seg.entries > 0 {
					runs[i] = append(runs[i], piece{lo, seg})
				}
				points = append(points, seg.end)
				lo = seg.end
			}
		}
	}
	lo, hi := slices.Min(points), slices.Max(points)
	for _, tables := range [][]*manifest.Table{p.Grandparents, p.Guards} {
		for _, t := range tables {
			if end := s.content[t.Num].hi(); end > lo && end < hi {
				points = append(points, end)
			}
		}
	}
	slices.Sort(points)
	points = slices.Compact(points)
	all := make([]piece, 0, len(points))
	for i := 1; i < len(points); i++ {
		all = append(all, piece{points[i-1], s.overlay(runs, points[i-1], points[i])})
	}
	return all
}

// overlay merges the runs between two keys, newest first, and skips the pieces before. An
// update is as likely to hit a key of the older runs as these hold a share of all keys.
func (s *simulation) overlay(runs [][]piece, lo, hi uint64) segment {
	sum := segment{end: hi}
	there := s.keys * float64(hi-lo) / keySpace
	for i := len(runs) - 1; i >= 0; i-- {
		for len(runs[i]) > 0 && runs[i][0].end <= lo {
			runs[i] = runs[i][1:]
		}
		if len(runs[i]) == 0 || runs[i][0].lo > lo {
			continue
		}
		part := float64(hi-lo) / float64(runs[i][0].end-runs[i][0].lo)
		entries, fresh := runs[i][0].entries*part, runs[i][0].fresh*part
		twice := max(0, entries-fresh) * min(1, sum.entries/there)
		sum.entries += entries - twice
		sum.fresh += fresh
	}
	return sum
}

// A fakeOutput is a table that has only a size.
type fakeOutput struct {
	Output
	entries float64
}

func (f *fakeOutput) EstimatedSize() int64 { return int64(f.entries * tableEntry) }

// cut makes tables of pieces as Merge does.
func (s *simulation) cut(p *Plan, pieces []piece) []*counts {
	c := newCutter(MergeOptions{TableSize: p.tableSize, Grandparents: p.Grandparents, Guards: p.Guards})
	var all []*counts
	var open *counts
	out := &fakeOutput{}
	full := float64(p.tableSize) / tableEntry
	for _, pc := range pieces {
		if pc.entries < 1e-9 {
			continue
		}
		for at := pc.lo; at < pc.end; {
			if open == nil {
				c.before(simKey(at), nil)
				open = &counts{lo: at}
			} else if c.before(simKey(at), out) {
				all = append(all, open)
				open, out.entries = &counts{lo: at}, 0
			}
			end := pc.end
			left := pc.entries * float64(end-at) / float64(pc.end-pc.lo)
			if room := math.Ceil(full - out.entries + 1); left > room {
				end = min(end, at+uint64(float64(end-at)*room/left)+1)
			}
			part := float64(end-at) / float64(pc.end-pc.lo)
			open.add(s.load, at, segment{end, pc.entries * part, pc.fresh * part})
			out.entries += pc.entries * part
			at = end
		}
	}
	if open != nil {
		all = append(all, open)
	}
	return all
}

// add appends a segment that begins at a key. If the segment before it
// lies in the same part of the workload's key range, the two become one.
func (c *counts) add(load workload, at uint64, seg segment) {
	n := len(c.segs)
	if n == 0 {
		c.segs = append(c.segs, seg)
		return
	}
	last := &c.segs[n-1]
	width := uint64(keySpace)
	if len(load.shares) > 0 {
		width /= uint64(len(load.shares))
	}
	if last.end == at && (at-1)/width == (seg.end-1)/width {
		last.end = seg.end
		last.entries += seg.entries
		last.fresh += seg.fresh
		return
	}
	if last.end < at { // a gap
		c.segs = append(c.segs, segment{end: at})
	}
	c.segs = append(c.segs, seg)
}
