package compaction

import (
	"bytes"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/manifest"
)

// A Manual is a compaction of a range of keys down to the last level, on request.
// Its owner asks Next for one plan after the other until it is complete.
//
// Automatic compactions go on at the same time. A Manual ends all the same, for three
// reasons. It is only about tables that hold entries as old as the Manual. Each plan,
// its own or an automatic one, takes entries down and none up. And each place of the last
// level is rewritten at most once. Its steps are small (see limit), because other
// compactions that need the tables of a step wait for it, above all those of level 0.
type Manual struct {
	lower, upper []byte // user keys; upper is exclusive; nil: no bound
	maxSeq       base.Seq
	below        []byte // the last level is done below this key
}

// NewManual returns a compaction of the user keys from lower (inclusive) to
// upper (exclusive), as far as they were written up to the number maxSeq.
// A bound of nil means no bound. It keeps both slices.
func NewManual(lower, upper []byte, maxSeq base.Seq) *Manual {
	return &Manual{lower: lower, upper: upper, maxSeq: maxSeq, below: lower}
}

// Next returns the next step: a plan, or a plan of kind Nothing. In the second
// case, blocked reports whether plans in flight are in the way. If so, the caller
// asks again when one of them has ended. If not, the compaction is complete.
func (m *Manual) Next(v *manifest.Version, o Options, busy InFlight) (plan Plan, blocked bool) {
	plan, blocked = m.look(v, o, busy)
	if plan.Kind != Nothing && plan.From == lastLevel {
		m.below = append(bytes.Clone(plan.largest), 0)
	}
	return plan, blocked
}

// Ready reports whether Next would return a plan. It makes no step.
func (m *Manual) Ready(v *manifest.Version, o Options, busy InFlight) bool {
	plan, _ := m.look(v, o, busy)
	return plan.Kind != Nothing
}

// look is Next without a record that the plan was made. The highest
// level with tables to bring down comes first: what it brings down
// is then taken further by the steps for the deeper levels.
func (m *Manual) look(v *manifest.Version, o Options, busy InFlight) (plan Plan, blocked bool) {
	p := newPicker(v, o, &busy)
	for level := range lastLevel {
		if !m.any(p, level) {
			continue
		}
		var ok bool
		if level == 0 {
			plan, ok = p.fromLevel0(m.young(), byRequest)
		} else {
			plan, ok = m.fromLevel(p, level)
		}
		return plan, !ok
	}
	return m.rewrite(p)
}

// limit is how many bytes a step from a level may read, unless its first table
// alone needs more. It is half of what other compactions may read. In the base level it is
// also bounded by what a few compactions of level 0 write: while tables of
// the base level are on their way down, level 0 can't be compacted into them.
func (p *picker) limit(level int) int64 {
	limit := p.maxBytes(min(level+1, lastLevel)) / 2
	if level == p.shape.base {
		return min(limit, 4*p.opts.BaseBytes)
	}
	return limit
}

// inRange reports whether t may hold keys of the range.
func (m *Manual) inRange(t *manifest.Table) bool {
	return bytes.Compare(t.Largest, m.lower) >= 0 && (m.upper == nil || bytes.Compare(t.Smallest, m.upper) < 0)
}

// wants reports whether the compaction has to bring t down: t
// is in the range and holds entries up to maxSeq.
func (m *Manual) wants(t *manifest.Table) bool { return t.MinSeq <= m.maxSeq && m.inRange(t) }

// young asks for the tables of level 0 to bring down.
func (m *Manual) young() level0Query {
	return level0Query{span: span{m.lower, m.upper}, wanted: m.wants}
}

// any reports whether level has a table to bring down.
func (m *Manual) any(p *picker, level int) bool {
	if level == 0 {
		_, ok := p.oldestYoung(m.young())
		return ok
	}
	for _, run := range p.v.Levels[level].Runs {
		for _, t := range run.Overlaps(m.lower, nil) {
			if m.wants(t) {
				return true
			}
			if !m.inRange(t) {
				break
			}
		}
	}
	return false
}

// fromLevel plans to take neighbouring tables of a level one level down. Together
// with the tables that they overlap there, they are at most as large as the limit.
func (m *Manual) fromLevel(p *picker, level int) (Plan, bool) {
	runs := p.v.Levels[level].Runs
	if len(runs) > 1 {
		return m.fromRuns(p, level)
	}
	oldest := &runs[len(runs)-1]
	var group []*manifest.Table
	var size int64
	limit := p.limit(level)
	for _, t := range oldest.Overlaps(m.lower, nil) {
		below, ok := int64(0), false
		if m.wants(t) && !p.busy.isBusy(t.Num) {
			below, ok = p.below(level, span{t.Smallest, t.Largest})
		}
		if ok && (len(group) == 0 || size+t.Size+below <= limit) {
			group, size = append(group, t), size+t.Size+below
		} else if len(group) > 0 || !m.inRange(t) {
			break
		}
	}
	if len(group) == 0 {
		return Plan{}, false
	}
	return p.plan(level, level+1, []Input{{level: level, run: oldest.ID, Tables: group}}, byRequest)
}

// fromRuns plans to take a column of a level with several
// runs one level down. The oldest runs come first.
func (m *Manual) fromRuns(p *picker, level int) (Plan, bool) {
	runs := p.v.Levels[level].Runs
	for r := len(runs) - 1; r >= 0; r-- {
		in := partOf(&runs[r], span{m.lower, m.upper})
		for at := in.from; at < in.to; at++ {
			if !m.wants(runs[r].Tables[at]) {
				continue
			}
			if inputs, ok := p.column(level, r, part{at, at + 1}, p.limit(level)); ok {
				if plan, ok := p.plan(level, level+1, inputs, byRequest); ok {
					return plan, true
				}
			}
		}
	}
	return Plan{}, false
}

// rewrite plans to rewrite the next neighbouring tables of the last level that hold
// tombstones, old versions, or what range deletes may cover.
func (m *Manual) rewrite(p *picker) (plan Plan, blocked bool) {
	runs := p.v.Levels[lastLevel].Runs
	if len(runs) == 0 {
		return Plan{}, false
	}
	run := &runs[len(runs)-1]
	if all := run.Totals(); all.Tombstones+all.Expiring == 0 && all.Entries == all.Keys && p.v.Spans.Empty() {
		return Plan{}, false
	}
	var group []*manifest.Table
	var size int64
	for _, t := range run.Overlaps(m.below, nil) {
		if !m.inRange(t) || len(group) > 0 && size+t.Size > p.limit(lastLevel) {
			break
		}
		stale := t.Tombstones > 0 || t.Entries > t.Keys || t.AnyOver(p.opts.Clock) || p.mayCover(t)
		if stale && m.wants(t) && (p.opts.DropSeq == 0 || t.MinSeq <= p.opts.DropSeq) {
			group = append(group, t)
			size += t.Size
		} else if len(group) > 0 {
			break
		}
	}
	if len(group) == 0 {
		return Plan{}, false
	}
	plan, ok := p.plan(lastLevel, lastLevel, []Input{{level: lastLevel, run: run.ID, Tables: group}}, byRequest)
	return plan, !ok
}
