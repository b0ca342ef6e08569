package shale

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/shaledb/shale/compaction"
	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/memqueue"
	"github.com/shaledb/shale/memtable"
)

// Before it writes a group, the leader of the commit queue calls makeRoom. While makeRoom
// waits, all writers do, and so it holds them back:
//
//  1. hold, if the memtable has room. While another memtable is being flushed, or level 0
//     is deep, the leader sleeps for some milliseconds now and then. So a memtable rarely
//     is full before the flush of the last one has ended.
//  2. awaitLastFlush, if the memtable is full. The leader waits for that flush, for a short
//     time only.
//  3. stall, if too many memtables wait to be flushed or level 0 is too deep. The leader
//     waits until that has changed. If it can't change, because flushes or compactions
//     fail, writes are refused.
//  4. rotate then seals the log, begins the next one, makes the memtable immutable and
//     wakes the flusher.
//
// The first two delay writers only a little, so that the third, which stops them, is rare.
// The state of pacing (pacer) belongs to the leader.

// maxImmutables is the number of memtables that may wait to be flushed before writers wait
// too. Writers are paced from the first one on, so there is a second only if flushes become
// slower or fail.
const maxImmutables = 2

// makeRoom returns nil when the memtable takes another group. If the memtable is full, it
// begins a new one. While flushes or compactions do not keep up, it holds the writers back.
// ctx ends the wait. After an error nothing of the group has been written. Requires: the
// caller leads the queue.
func (db *DB) makeRoom(ctx context.Context) error {
	v := db.mems.View()
	if v == nil || db.ctx.Err() != nil {
		return ErrClosed
	}
	if db.health.Current() != nil {
		return db.Err()
	}
	// IsFull: a rotation has sealed the log and failed to begin the next one.
	if v.Mem.Taken() < db.opts.MemtableSize && !db.logs.IsFull() {
		db.logs.Ask(v.Mem.Taken())
		return db.hold(ctx, v)
	}
	if err := db.awaitLastFlush(ctx); err != nil {
		return err
	}
	stuck, err := db.stall(ctx)
	if stuck != nil {
		return db.health.Refuse(stuck, true)
	}
	if err != nil {
		return err
	}
	return db.rotate()
}

// flushPause is how long a group waits for the previous flush, at most, although there is
// room for another memtable. It is the longest wait of a Put by design: see bench/peers/steady.
const flushPause = 25 * time.Millisecond

// awaitLastFlush waits for the flush of the previous memtable, up to flushPause, so that no
// third memtable is made. Pacing has let that flush come near its end. Requires: the caller
// leads the queue.
func (db *DB) awaitLastFlush(ctx context.Context) error {
	if len(db.mems.View().Imms) != 1 {
		return nil
	}
	begin := time.Now()
	if db.waitForFlush(ctx, begin) {
		// It is not reported before the wait: only await, under its lock, finds out whether
		// there is one.
		db.slowed(stallMemtables)
		took := time.Since(begin)
		db.pacer.slept += took
		db.countStall(took, stallMemtables)
	}
	return base.ContextError(ctx)
}

// waitForFlush waits until the flush has ended, or until flushPause after begin. It gives
// up if the flush fails, if writes are refused, or if ctx or the store ends. It reports
// whether it had to wait.
func (db *DB) waitForFlush(ctx context.Context, begin time.Time) (waited bool) {
	// await looks at its condition only after a change. The end of the pause has to be one.
	timer := time.AfterFunc(flushPause, db.changes.broadcast)
	defer timer.Stop()
	db.changes.await(ctx, func() bool {
		if time.Since(begin) >= flushPause || len(db.mems.View().Imms) != 1 ||
			db.mems.FlushFailure() != nil || db.health.Current() != nil || db.closing() || ctx.Err() != nil {
			return true
		}
		waited = true
		return false
	})
	return waited
}

// awaitRoom waits until there is room for another immutable memtable and level 0 is not too
// deep. If a flush or a compaction that is needed for that has failed, it is tried again first:
// a call, other than a write, is worth an attempt. awaitRoom returns an error that wraps
// ErrReadOnly if there will be no room, and does not refuse writes for that. Requires: the
// caller leads the queue.
func (db *DB) awaitRoom(ctx context.Context) error {
	if err := db.retryBackground(ctx); errors.Is(err, ErrClosed) || err != nil && errors.Is(err, ctx.Err()) {
		return err
	} else if err != nil {
		return base.ReadOnly(err)
	}
	stuck, err := db.stall(ctx)
	if stuck != nil {
		return base.ReadOnly(stuck)
	}
	return err
}

// stall waits until there is room. stuck is why there will be none. err is why it gave up
// waiting: ctx, Close, or a failure that refuses writes. If both are nil, there is room.
// Only a wait is counted and has events.
func (db *DB) stall(ctx context.Context) (stuck, err error) {
	reason := db.stallReason()
	if reason == stallNone {
		return nil, nil
	}
	// Without hope there is no wait, and so no event of one.
	if stuck := db.stuck(reason); stuck != nil {
		return stuck, nil
	}
	db.events.emit(Event{Kind: EventStallBegin, Reason: reason.String()})
	begin := time.Now()
	defer func() {
		took := time.Since(begin)
		db.countStall(took, reason)
		db.events.emit(Event{Kind: EventStallEnd, Reason: reason.String(), Duration: took})
	}()
	return db.waitForRoom(ctx)
}

// waitForRoom waits while there is hope. Its results are those of stall.
func (db *DB) waitForRoom(ctx context.Context) (stuck, err error) {
	db.changes.await(ctx, func() bool {
		if db.stallReason() == stallNone {
			return true
		}
		switch {
		case db.closing():
			err = ErrClosed
		case ctx.Err() != nil:
			err = base.ContextError(ctx)
		case db.health.Current() != nil:
			err = db.Err()
		default:
			stuck = db.stuck(db.stallReason())
		}
		return err != nil || stuck != nil
	})
	return stuck, err
}

// A stall is what writers wait for.
type stall int

const (
	stallNone stall = iota
	stallMemtables
	stallLevel0
)

func (s stall) String() string {
	return [...]string{"", "memtables wait to be flushed", "level 0 waits to be compacted"}[s]
}

// stallReason returns what writers have to wait for, if anything. With automatic
// compactions off, the depth of level 0 stops nobody, because nothing would end the wait.
func (db *DB) stallReason() stall {
	v := db.mems.View()
	switch {
	case v == nil:
		return stallNone // Close waits for nothing
	case len(v.Imms) >= maxImmutables:
		return stallMemtables
	case len(v.Meta.Levels[0].Runs) >= stopRuns && db.opts.CompactionWorkers > 0:
		return stallLevel0
	}
	return stallNone
}

// stuck returns why the room that writers wait for, for the reason given, does not come
// about. nil: it may.
func (db *DB) stuck(reason stall) error {
	if reason == stallNone {
		return nil
	}
	if err := db.mems.FlushFailure(); err != nil || reason == stallMemtables {
		return err // memtables are full and can't be flushed
	}
	return db.scheduler.Stuck()
}

// rotate seals the log, begins a new log and memtable, and queues the old memtable for
// flushing. If the new log can't be made, for lack of room above all, writes are refused
// and nothing is lost: recoverLoop tries again. Requires: the caller leads the queue.
func (db *DB) rotate() error {
	if db.health.Current() != nil {
		return db.Err()
	}
	return db.mems.Rotate(db.storeID, db.commits.Last())
}

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

// countStall counts a wait of the writers for the metrics.
func (db *DB) countStall(took time.Duration, why stall) {
	db.counters.stalledWrites.Add(1)
	if why == stallMemtables {
		db.counters.stallMemtables.Add(int64(took))
	} else {
		db.counters.stallLevel.Add(int64(took))
	}
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
