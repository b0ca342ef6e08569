package shale

import (
	"context"
	"errors"
	"time"

	"github.com/shaledb/shale/internal/base"
)

// This file has how writers wait for room in the memtable.

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
	if v == nil || db.life.Context.Err() != nil {
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
	timer := time.AfterFunc(flushPause, db.changes.Broadcast)
	defer timer.Stop()
	db.changes.Await(ctx, func() bool {
		if time.Since(begin) >= flushPause || len(db.mems.View().Imms) != 1 ||
			db.mems.FlushFailure() != nil || db.health.Current() != nil || db.life.Closing() || ctx.Err() != nil {
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
	db.changes.Await(ctx, func() bool {
		if db.stallReason() == stallNone {
			return true
		}
		switch {
		case db.life.Closing():
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

// countStall counts a wait of the writers for the metrics.
func (db *DB) countStall(took time.Duration, why stall) {
	db.counters.stalledWrites.Add(1)
	if why == stallMemtables {
		db.counters.stallMemtables.Add(int64(took))
	} else {
		db.counters.stallLevel.Add(int64(took))
	}
}
