package shale

import (
	"context"
	"math"
	"time"

	"github.com/shaledb/shale/compaction"
	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/memqueue"
	"github.com/shaledb/shale/memtable"
)

// This file has how writers are held back a little, so that they need never be stopped.

// A pacer holds writers back a little now and then, so that they need never be stopped:
// while level 0 is deep, and while a memtable fills and another is flushed.
//
// It works like an account. A memtable that grows by n bytes, at a permitted rate of r
// bytes a second, owes n/r seconds. The time that passes pays for that. When at least
// minPause is owed, the leader sleeps for it, but for at most maxPause. It belongs to the
// leader of the commit queue.
type pacer struct {
	held  bool          // writers may have to be held back: their growth is measured
	told  bool          // they are held back: EventStallBegin was sent
	why   stall         // what that event said
	slept time.Duration // since that event, for EventStallEnd

	// The state at the last measurement.
	mem   *memtable.Memtable
	taken int64         // bytes in mem
	since time.Time     // when it was measured
	owed  time.Duration // how long writers must still pause; negative if they have paused too long
}

const (
	minPause  = time.Millisecond      // shorter pauses cost more than they delay
	maxPause  = 20 * time.Millisecond // of one group: what has not been slept then is forgiven
	paceBytes = 8 << 10               // growth between two looks: writes are many, and a look reads the clock
)

// Level 0 holds one run a flush. Filters make many runs bearable for lookups, but not for
// scans. So writers are slowed from slowdownRuns up, more with each run, and stopped at
// stopRuns. Level 0 is compacted from compaction.Level0Runs up. While that goes on, writers
// that are as fast as a disk can make eight more runs, so slowdownRuns is some more away.
const (
	slowdownRuns = compaction.Level0Runs + 12
	stopRuns     = slowdownRuns + 16
)

// level0Rate returns by how many bytes a second a memtable may grow when level 0 has that
// many runs: 64 MiB with the first that is too many, a quarter less with each more, and 1
// MiB in the end. 0: there is no limit.
func level0Rate(runs int) float64 {
	if runs < slowdownRuns {
		return 0
	}
	return max(64<<20*math.Pow(0.75, float64(runs-slowdownRuns)), 1<<20)
}

// memtableRate returns by how many bytes a second a memtable may grow that is full to the
// share full, while others are flushed at flushRate. In the time that a flush takes it then
// fills by 78 %, and if the flush takes twice as long, by 95 %. So there are rarely three
// memtables. To allow three was no faster, and took more memory (5 million entries of 116
// bytes: 203 MB at most instead of 189).
func memtableRate(flushRate, full float64) float64 {
	return flushRate * max(1.5*(1-full), 1.0/32)
}

// paceOf decides how fast the next group may be written, and returns why no faster. If
// there are two reasons, the slower rate counts. 0: there is no limit.
func (db *DB) paceOf(v *memqueue.View) (rate float64, why stall) {
	if len(v.Imms) > 0 {
		full := float64(v.Mem.Taken()) / float64(db.opts.MemtableSize)
		rate, why = memtableRate(db.mems.FlushRate(), full), stallMemtables
	}
	if runs := len(v.Meta.Levels[0].Runs); runs >= slowdownRuns && db.opts.CompactionWorkers > 0 {
		if r := level0Rate(runs); rate == 0 || r < rate {
			rate, why = r, stallLevel0
		}
	}
	return rate, why
}

// hold looks how much the memtable has grown since the last look, and sleeps if that was
// too fast. So it sleeps for groups that are written, before the next one. The first look
// only begins the measurement. Requires: the caller leads the queue.
func (db *DB) hold(ctx context.Context, v *memqueue.View) error {
	p := &db.pacer
	taken := v.Mem.Taken()
	if p.held && p.mem == v.Mem && taken-p.taken < min(paceBytes, db.opts.MemtableSize/64) {
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
		*p = pacer{held: true, mem: v.Mem, taken: taken, since: now}
		return nil
	}
	// A new memtable begins at 0. What the old one has grown by since is forgotten.
	if p.mem != v.Mem {
		p.mem, p.taken = v.Mem, 0
	}
	p.owed += time.Duration(float64(taken-p.taken)/rate*float64(time.Second)) - now.Sub(p.since)
	p.taken, p.since = taken, now
	// Writers that were slow do not save up for a long burst.
	if p.owed < minPause {
		p.owed = max(p.owed, -minPause)
		return nil
	}
	return db.pause(ctx, now, why)
}

// pause sleeps for what is owed, and takes off what it has slept. ctx and Close end it
// early, with an error. Requires: the caller leads the queue.
func (db *DB) pause(ctx context.Context, begin time.Time, why stall) (err error) {
	p := &db.pacer
	db.slowed(why)
	timer := time.NewTimer(min(p.owed, maxPause))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		err = base.ContextError(ctx)
	case <-db.life.Context.Done():
		err = ErrClosed
	}
	took := time.Since(begin)
	p.since = begin.Add(took)
	p.owed = max(min(p.owed, maxPause)-took, -minPause)
	p.slept += took
	db.countStall(took, why)
	return err
}

// slowed sends EventStallBegin at the first of several waits. endHold sends the end.
// Requires: the caller leads the queue.
func (db *DB) slowed(why stall) {
	p := &db.pacer
	if p.told {
		return
	}
	if !p.held { // the memtable was full before hold had looked once
		*p = pacer{held: true, since: time.Now()}
	}
	p.told, p.why, p.slept = true, why, 0
	db.events.emit(Event{Kind: EventStallBegin, Reason: "slowed: " + why.String()})
}

// endHold ends the measurement, because nothing limits the writers. It sends EventStallEnd
// if they were held back. Requires: the caller leads the queue.
func (db *DB) endHold() {
	p := &db.pacer
	if p.told {
		db.events.emit(Event{Kind: EventStallEnd, Reason: "slowed: " + p.why.String(), Duration: p.slept})
	}
	p.held, p.told = false, false
}
