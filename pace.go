package shale

import (
	"context"
	"math"
	"time"

	"github.com/shaledb/shale/memtable"
)

// A pacer holds writers back a little now and then, so that they need never be
// stopped: while level 0 is deep, and while a memtable fills and another is
// flushed. It belongs to the leader of the commit queue.
type pacer struct {
	held  bool // writers may have to be held back: their pace is measured
	told  bool // they are: EventStallBegin was sent
	why   stall
	slept time.Duration // since that was told

	// The state at the last measurement.
	mem   *memtable.Memtable
	taken int64         // bytes in mem
	since time.Time     // when it was measured
	owed  time.Duration // how long writers must still pause; negative if they have paused too long
}

const (
	minPause  = time.Millisecond      // shorter pauses cost more than they delay
	maxPause  = 20 * time.Millisecond // of one group: what has not been slept then is forgiven
	paceBytes = 8 << 10               // of growth between two looks: writes are many, and a look reads the clock
)

// Level 0 holds one run a flush. Filters make many runs bearable for lookups,
// not for scans, so writers are slowed from the first number on, more with
// each run, and stopped at the second.
const (
	slowdownRuns = 16
	stopRuns     = 32
)

// level0Rate is by how many bytes a second a memtable may grow when level 0 has so
// many runs: 64 MiB with the first that is too many, a quarter less with each more,
// 1 MiB in the end.
func level0Rate(runs int) float64 {
	if runs < slowdownRuns {
		return 0
	}
	return max(64<<20*math.Pow(0.75, float64(runs-slowdownRuns)), 1<<20)
}

// memtableRate is by how many bytes a second a memtable may grow, of which part
// full is written, while others are flushed at flushRate. In the time that a
// flush takes it fills by 78 % then, and if the flush takes twice as long, by
// 95 %. So there are rarely three: that was no faster, and took more memory (5
// million entries of 116 bytes: 203 MB at most instead of 189).
func memtableRate(flushRate, full float64) float64 {
	return flushRate * max(1.5*(1-full), 1.0/32)
}

// paceOf decides how fast the next group may be written, and why no faster.
func (db *DB) paceOf(v *view) (rate float64, why stall) {
	if len(v.imms) > 0 {
		full := float64(v.mem.Taken()) / float64(db.opts.MemtableSize)
		rate, why = memtableRate(db.flusher.speed.rate(), full), stallMemtables
	}
	if runs := len(v.Meta.Levels[0].Runs); runs >= slowdownRuns && db.opts.CompactionWorkers > 0 {
		if r := level0Rate(runs); rate == 0 || r < rate {
			rate, why = r, stallLevel0
		}
	}
	return rate, why
}

// hold sleeps for the groups before, if writers are held back. Requires: the
// caller leads the queue.
func (db *DB) hold(ctx context.Context, v *view) error {
	p := &db.pacer
	taken := v.mem.Taken()
	if p.held && p.mem == v.mem && taken-p.taken < min(paceBytes, db.opts.MemtableSize/64) {
		return nil
	}
	rate, why := db.paceOf(v)
	if rate == 0 {
		if p.held {
			db.endHold()
		}
		return nil
	}
	now := time.Now()
	if !p.held {
		*p = pacer{held: true, mem: v.mem, taken: taken, since: now}
		return nil
	}
	if p.mem != v.mem {
		p.mem, p.taken = v.mem, 0
	}
	p.owed += time.Duration(float64(taken-p.taken)/rate*float64(time.Second)) - now.Sub(p.since)
	p.taken, p.since = taken, now
	if p.owed < minPause {
		p.owed = max(p.owed, -minPause)
		return nil
	}
	return db.pause(ctx, now, why)
}

// pause sleeps for what is owed. Requires: the caller leads the queue.
func (db *DB) pause(ctx context.Context, begin time.Time, why stall) (err error) {
	p := &db.pacer
	db.slowed(why)
	timer := time.NewTimer(min(p.owed, maxPause))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		err = ctx.Err()
	case <-db.ctx.Done():
		err = ErrClosed
	}
	took := time.Since(begin)
	p.since = begin.Add(took)
	p.owed = max(min(p.owed, maxPause)-took, -minPause)
	p.slept += took
	db.countStall(took, why)
	return err
}

// slowed tells that writers are held back, at the first of their waits. Requires:
// the caller leads the queue.
func (db *DB) slowed(why stall) {
	p := &db.pacer
	if p.told {
		return
	}
	if !p.held { // the memtable was full before the first look
		*p = pacer{held: true, since: time.Now()}
	}
	p.told, p.why, p.slept = true, why, 0
	db.events.emit(Event{Kind: EventStallBegin, Reason: "slowed: " + why.String()})
}

// countStall counts a wait of the writers.
func (db *DB) countStall(took time.Duration, why stall) {
	db.counters.stalledWrites.Add(1)
	if why == stallMemtables {
		db.counters.stallMemtables.Add(int64(took))
	} else {
		db.counters.stallLevel.Add(int64(took))
	}
}

// endHold tells that writers are not held back any more, if they were. Requires:
// the caller leads the queue.
func (db *DB) endHold() {
	p := &db.pacer
	if p.told {
		db.events.emit(Event{Kind: EventStallEnd, Reason: "slowed: " + p.why.String(), Duration: p.slept})
	}
	p.held, p.told = false, false
}
