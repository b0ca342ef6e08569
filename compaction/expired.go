package compaction

import (
	"math"

	"github.com/shaledb/shale/manifest"
)

// maxDrop is how many tables a plan drops, so that its edit and the removal of files stay small.
const maxDrop = 64

// pickExpired drops tables of which all entries have expired for all readers, without reading
// them. Only such tables may lie below one of them, or what it hides would come back.
func (p *picker) pickExpired() (Plan, bool) {
	clock := p.opts.Clock
	for level := lastLevel; level >= 0; level-- {
		if clock == 0 || p.v.Totals(level).Expiring == 0 {
			continue
		}
		runs := p.v.Levels[level].Runs
		for r := len(runs) - 1; r >= 0; r-- {
			run := &runs[r]
			if run.Totals().Expiring == 0 {
				continue
			}
			in, over := Input{level: level, run: run.ID}, int64(0)
			for _, t := range run.Tables {
				if len(in.Tables) < maxDrop && t.AllOver(clock) && !p.busy.isBusy(t.Num) &&
					!p.busy.writes(level, t.Smallest, t.Largest) {
					if at, ok := p.hidesNothing(t, level, run.ID); ok {
						in.Tables, over = append(in.Tables, t), max(over, at)
					}
				}
			}
			if len(in.Tables) > 0 {
				plan := Plan{Kind: Drop, From: level, To: level, Inputs: []Input{in}, Reason: "expired", outputRun: run.ID, clock: over}
				plan.widen(in.Tables...)
				return plan, true
			}
		}
	}
	return Plan{}, false
}

// expiredShare is the share of a level's entries that are over from which on its tables are rewritten
// because of what has expired in them. Where keys come in the order of time, only a few tables are
// partly over. They are dropped soon, as a whole and unread, and to rewrite them before would be in vain.
const expiredShare = 1.0 / 8

// rewriteClock returns the time by which entries of a level count as over for a rewrite.
func (p *picker) rewriteClock(level int) int64 {
	sum := p.v.Totals(level)
	if sum.Expiring == 0 || p.opts.Clock == 0 {
		return 0
	}
	over := uint64(0)
	for _, run := range p.v.Levels[level].Runs {
		over += p.over(run.Tables)
	}
	if float64(over) < expiredShare*float64(sum.Entries) {
		return 0
	}
	return p.opts.Clock
}

// hidesNothing reports whether all that may be older than t has expired too, and when all of that and t had.
func (p *picker) hidesNothing(t *manifest.Table, level int, run uint64) (over int64, ok bool) {
	over = t.Expiry[8]
	for _, tables := range olderBelow(p.v, level, run, t.Smallest, t.Largest).runs {
		for _, below := range tables {
			if !below.AllOver(p.opts.Clock) {
				return 0, false
			}
			over = max(over, below.Expiry[8])
		}
	}
	return over, true
}

// over returns about how many entries are tombstones or have expired for all; at least 1 if any.
func (p *picker) over(tables []*manifest.Table) (n uint64) {
	for _, t := range tables {
		n += t.OverAt(p.opts.Clock)
		if t.AnyOver(p.opts.Clock) {
			n = max(n, 1)
		}
	}
	return n
}

// Clock returns the time by which a plan drops tables that have expired: see MergeResult.Clock. It is
// also the time by which what they hide has expired.
func (p *Plan) Clock() int64 { return p.clock }

// NextExpiry returns the next time after clock at which Pick may have a plan because entries of v
// expire, and math.MaxInt64 if there is none.
func NextExpiry(v *manifest.Version, clock int64) int64 {
	next := int64(math.MaxInt64)
	for level := range v.Levels {
		if v.Totals(level).Expiring == 0 {
			continue
		}
		for _, run := range v.Levels[level].Runs {
			for _, t := range run.Tables {
				next = min(next, t.NextOver(clock))
			}
		}
	}
	return next
}
