package shale

import (
	"context"
	"fmt"
	"time"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/wal"
)

// maxImmutables is how many memtables may wait to be flushed before writers
// wait too. Since they are paced from the first one on, there is a second only
// if flushes become slower or fail.
const maxImmutables = 2

// makeRoom returns when the memtable takes another group: it begins a new one
// when it is full, and holds the writers back while flushes or compactions do
// not keep up. Requires: the caller leads the queue.
func (db *DB) makeRoom(ctx context.Context) error {
	v := db.view.Load()
	if v == nil || db.ctx.Err() != nil {
		return ErrClosed
	}
	if db.health.failure.Load() != nil {
		return db.Err()
	}
	if v.mem.Taken() < db.opts.MemtableSize && !db.logs.IsFull() {
		db.logs.Ask(v.mem.Taken())
		return db.hold(ctx, v)
	}
	if err := db.awaitLastFlush(ctx); err != nil {
		return err
	}
	stuck, err := db.stall(ctx)
	if stuck != nil {
		return db.health.refuse(stuck, true)
	}
	if err != nil {
		return err
	}
	return db.rotate()
}

// flushPause is how long a group waits at most for the previous flush, although
// there is room for another memtable.
const flushPause = 50 * time.Millisecond

// awaitLastFlush waits for the flush of the previous memtable, up to flushPause, so
// that no third memtable is made. Pacing has let that flush come near its end.
// Requires: the caller leads the queue.
func (db *DB) awaitLastFlush(ctx context.Context) error {
	if len(db.view.Load().imms) != 1 {
		return nil
	}
	begin := time.Now()
	if db.waitForFlush(ctx, begin) {
		db.slowed(stallMemtables) // not before: whether it waits shows under the lock
		took := time.Since(begin)
		db.pacer.slept += took
		db.countStall(took, stallMemtables)
	}
	return ctx.Err()
}

// waitForFlush waits for the last flush until flushPause after begin, and returns
// whether it had to.
func (db *DB) waitForFlush(ctx context.Context, begin time.Time) (waited bool) {
	timer := time.AfterFunc(flushPause, db.changes.broadcast)
	defer timer.Stop()
	db.changes.await(ctx, func() bool {
		if time.Since(begin) >= flushPause || len(db.view.Load().imms) != 1 ||
			db.scheduler.flushFailure() != nil || db.health.failure.Load() != nil || db.closing() || ctx.Err() != nil {
			return true
		}
		waited = true
		return false
	})
	return waited
}

// awaitRoom waits until there is room for another immutable memtable and level
// 0 is not too deep, unless neither will come about.
func (db *DB) awaitRoom(ctx context.Context) error {
	stuck, err := db.stall(ctx)
	if stuck != nil {
		return readOnlyError(stuck)
	}
	return err
}

// stall is awaitRoom that tells why there will be no room from why it did not wait
// for it.
func (db *DB) stall(ctx context.Context) (stuck, err error) {
	reason := db.stallReason()
	if reason == stallNone {
		return nil, nil
	}
	if stuck := db.scheduler.stuck(db.stallReason()); stuck != nil {
		return stuck, nil // without the events of a wait
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

// waitForRoom waits while there is hope: stuck is why there is none.
func (db *DB) waitForRoom(ctx context.Context) (stuck, err error) {
	db.changes.await(ctx, func() bool {
		if db.stallReason() == stallNone {
			return true
		}
		switch {
		case db.closing():
			err = ErrClosed
		case ctx.Err() != nil:
			err = ctx.Err()
		case db.health.failure.Load() != nil:
			err = db.Err()
		default:
			stuck = db.scheduler.stuck(db.stallReason())
		}
		return err != nil || stuck != nil
	})
	return stuck, err
}

type stall int

const (
	stallNone stall = iota
	stallMemtables
	stallLevel0
)

func (s stall) String() string {
	return [...]string{"", "memtables wait to be flushed", "level 0 waits to be compacted"}[s]
}

// stallReason says what writers have to wait for, if anything.
func (db *DB) stallReason() stall {
	v := db.view.Load()
	switch {
	case v == nil:
		return stallNone // Close waits for nothing
	case len(v.imms) >= maxImmutables:
		return stallMemtables
	case len(v.Meta.Levels[0].Runs) >= stopRuns && db.opts.CompactionWorkers > 0:
		return stallLevel0
	}
	return stallNone
}

// rotate seals the log, begins a new log and memtable, and queues the old
// memtable for flushing. If the new log can't be made, for lack of room above
// all, no harm is done: recoverLoop tries again. Requires: the caller leads the
// queue.
func (db *DB) rotate() error {
	if db.health.failure.Load() != nil {
		return db.Err()
	}
	return db.changeLogs()
}

// changeLogs is rotate, also while writes are refused.
func (db *DB) changeLogs() error {
	old, oldNum := db.logs.Current(), db.logs.CurrentNum()
	// The old log is sealed and synced before anything in the new one can be
	// acknowledged: no crash leaves a hole between them.
	sealed, err := db.logs.Seal(db.commits.Last())
	if err != nil {
		return db.health.logFailed(fmt.Errorf("shale: seal log: %w", err))
	}
	if err := db.logs.Begin(wal.Header{StoreID: db.storeID, Prev: oldNum, PrevLen: sealed.Length, PrevSeq: sealed.LastSeq}); err != nil {
		return db.health.refuse(fmt.Errorf("shale: begin log: %w", err), true)
	}
	if err := old.Close(); err != nil {
		return db.health.logFailed(fmt.Errorf("shale: close log: %w", err))
	}
	db.view.freeze(db.newMemtable)
	db.view.setLog(db.logs.Rotated())
	base.Wake(db.flusher.wake)
	return nil
}
