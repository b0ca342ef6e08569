package shale

import (
	"context"
	"errors"
	"time"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/health"
	"github.com/shaledb/shale/internal/lifetime"
	"github.com/shaledb/shale/manifest"
	"github.com/shaledb/shale/wal"
)

// This file has how a store leaves the state in which it refuses writes.

// A store that can't write refuses writes and goes on with reads. Package health knows the
// failure. Some failures may pass, such as a lack of room. Others last, such as a failed
// sync. Writes are taken again in these steps:
//
//  1. recoverLoop, on a goroutine of its own, tries again and again while there is a
//     failure that may pass. beginUsable tries once, for calls such as Flush. Resume tries once,
//     whatever the failure.
//  2. Each of them leads the commit queue, so that no group of writes is under way, and
//     calls resumeFrom.
//  3. tryWrites does what the writes could not go on without: it lets the log grow, begins
//     the next one, or replaces one that is broken.
//  4. If that works, Health.Resolve lets writes go on, unless a worse failure has come
//     meanwhile.

// Err returns the background error that made the store read-only, wrapped in [ErrReadOnly],
// or nil. While it is not nil every write returns it. A store that lacks room, be it in a
// file or for another file, takes writes again by itself once there is room. Then Err
// returns nil again.
func (db *DB) Err() error {
	return db.health.Err()
}

// Resume tries at once to leave the state in which Err is not nil. A store that lacks room
// tries that by itself as well, but up to five seconds later. After any other failed write
// of the log, or a failed sync, only Resume (or another Open) ends that state. It makes the
// memtables safe in tables, begins a new log and lets writes go on. Writes that nobody has
// seen before they failed stay undone. A write that was visible, and of which only the sync
// failed, is kept. If the cause persists, Resume returns it and the store stays read-only.
func (db *DB) Resume() error {
	if db.opts.ReadOnly {
		return ErrReadOnly
	}
	if err := db.life.Begin(); err != nil {
		return err
	}
	defer db.life.Calls.Done()
	return db.commits.Alone(context.Background(), db.resume)
}

// beginUsable is begin for a call that needs a store which can write, but writes no entries. A
// failure that may pass does not refuse it. It is tried whether it has passed, because the
// caller may have removed its cause. If ctx is done, the call does not begin. The call is
// registered first: what is tried may begin a log, which must not happen in a store that Close
// has sealed. Requires: the caller does not lead the queue.
func (db *DB) beginUsable(ctx context.Context) error {
	if err := db.life.Begin(); err != nil {
		return err
	}
	f, err := db.lastingFailure()
	if err == nil {
		err = base.ContextError(ctx)
	}
	if err == nil && f != nil {
		err = db.commits.Alone(ctx, db.resumePassing)
	}
	if err != nil {
		db.life.Calls.Done()
	}
	return err
}

// lastingFailure returns as an error why nothing can be written, if that lasts. If it may
// pass, it returns the failure and no error. If both are nil, the store takes writes. It looks
// whether the directory is still there.
func (db *DB) lastingFailure() (*health.Failure, error) {
	if db.mems.View() == nil {
		return nil, ErrClosed
	}
	if db.opts.ReadOnly {
		return nil, ErrReadOnly
	}
	_ = db.guard.Check() // health knows of it
	return db.health.Lasting()
}

// recoverLoop lets a store take writes again once what it lacked is there again. It tries
// again and again, later each time, and at once when a flush or a compaction has succeeded.
// It returns when Close begins.
func (db *DB) recoverLoop() {
	var resumed time.Time
	for tries := 0; ; {
		select {
		case <-db.life.Context.Done():
			return
		case <-db.health.Woken():
		}
		// A store that fails again soon after it was resumed keeps its delay. Otherwise it
		// would change its state every 20 ms.
		if time.Since(resumed) > lifetime.RetryDelay(tries) {
			tries = 0
		}
		for db.health.Recovers() {
			if tries++; !db.life.SleepUnless(db.health.Woken(), lifetime.RetryDelay(tries)) {
				return
			}
			if base.Survive(func() error { return db.commits.Alone(db.life.Context, db.resumePassing) }) == nil {
				resumed = time.Now()
			} else {
				db.counters.retries.Add(1)
			}
		}
	}
}

// resumePassing is resume for a failure that may pass. It leaves one alone that lasts,
// which may have come since the caller looked. Requires: the caller leads the queue.
func (db *DB) resumePassing() error {
	f, err := db.lastingFailure()
	if err != nil || f == nil {
		return err
	}
	return db.resumeFrom(f)
}

// resume ends the refusal of writes if what was in their way is gone. Requires: the caller
// leads the queue.
func (db *DB) resume() error {
	if f := db.health.Current(); f != nil {
		return db.resumeFrom(f)
	}
	return nil
}

// resumeFrom is resume for the failure f. If it returns an error, writes stay refused.
// Requires: the caller leads the queue.
func (db *DB) resumeFrom(f *health.Failure) error {
	switch {
	case f.Fenced:
		return base.ReadOnly(f.Err)
	case db.commits.Torn():
		return base.ReadOnly(errTorn)
	}
	if base.IsNoSpace(f.Err) && !f.Foreign {
		db.giveUpReserve(0)
		db.logs.Current().Shrink()
	}
	if err := db.tryWrites(f); err != nil {
		return err
	}
	return db.health.Resolve(f)
}

// errTorn is returned by Resume after a panic that left a part of a batch in the memtable. The
// log has the batch whole, or not at all. So the way out is to read the log again.
var errTorn = errors.New("shale: a panic left a part of a batch in memory: close the store and open it again")

// tryWrites does what writes could not go on without, or returns why it can't. Requires:
// the caller leads the queue.
func (db *DB) tryWrites(f *health.Failure) error {
	w := db.logs.Current()
	switch {
	// A sync has failed since f was noted, and whoever synced is about to report it. Nobody
	// knows what the disk has, so the failure is final.
	case f.Passes && w.SyncFailed():
		return db.health.LogFailed(w.Err())
	case !f.Passes || w.Err() != nil:
		return db.replaceLog()
	case db.logs.IsFull(): // the log is sealed, and the next one could not be created
		if err := db.mems.Rotate(db.storeID, db.commits.Last()); err != nil {
			return err
		}
	default:
		if err := w.Reserve(); err != nil {
			return err
		}
	}
	// Writes may also wait for a flush or for level 0, and would be refused again at once.
	return db.retryBackground(db.life.Context)
}

// retryBackground has what has failed in the background, and keeps writers from room, tried
// again at once: its cause may be gone. It returns why there is still no room, or nil.
// Requires: the caller leads the queue.
func (db *DB) retryBackground(ctx context.Context) error {
	if err := db.retryFlush(); err != nil {
		return err
	}
	return db.retryCompaction(ctx)
}

// retryPatience is how long retryCompaction waits for the compaction that it has tried
// again. Its caller leads the queue meanwhile.
const retryPatience = 10 * time.Second

// retryCompaction returns why level 0 can't be made shallower, if writers wait for that.
// The cause of an earlier failure may be gone, so it has one compaction tried again first.
// That is not needed if one that has begun earlier makes level 0 shallower meanwhile. Then
// there may be nothing left to compact, so another one may never begin. Damage does not go
// away, so for that it tries nothing.
func (db *DB) retryCompaction(ctx context.Context) error {
	stuck := func() error { return db.stuck(db.stallReason()) }
	var damage *CorruptionError
	if err := stuck(); err == nil || errors.As(err, &damage) {
		return err
	}
	patience, cancel := context.WithTimeout(ctx, retryPatience)
	defer cancel()
	ended := db.scheduler.RetryNow()
	db.changes.Await(patience, func() bool { return ended() || stuck() == nil || db.life.Closing() || patience.Err() != nil })
	if db.life.Closing() {
		return ErrClosed
	}
	if err := base.ContextError(ctx); err != nil {
		return err
	}
	return stuck()
}

// replaceLog makes all writes of a broken log safe in tables and begins another. If it
// fails, the broken log stays the current one, and the store goes on refusing writes.
// Requires: the caller leads the queue.
func (db *DB) replaceLog() error {
	db.mems.Freeze()
	// Once the memtables are tables, nothing needs the broken log. The edit below keeps the
	// numbers of what failed in it from being given out again.
	if err := db.flushAll(); err != nil {
		return err
	}
	broken := db.logs.Current()
	next := db.tree.PeekFileNum()
	// The edit comes before the new log. If a crash comes between them, Open finds no log
	// that it needs, and all writes are in tables.
	// Two edits: that which makes logs obsolete has the last number that is kept (State.Flushed), as after a flush.
	if err := db.tree.AppendEdit(&manifest.Edit{LastSeq: db.commits.Last()}); err != nil {
		return err
	}
	if err := db.tree.AppendEdit(&manifest.Edit{MinLog: next, LastSeq: db.commits.Visible()}); err != nil {
		return err
	}
	// The next log names no log before it. It states the last number that is kept of the broken one.
	if err := db.logs.Begin(wal.Header{StoreID: db.storeID, PrevSeq: db.commits.Visible()}); err != nil {
		return err
	}
	_ = broken.Close() // it failed before
	current := db.logs.CurrentNum()
	db.mems.SetLog(current)
	db.removeFiles(db.logs.DropBelow(current)...)
	return nil
}

// logBroken reports whether nobody knows what the log holds. Then Close neither seals it
// nor tells the manifest that it is whole. Requires: the caller leads the queue.
func (db *DB) logBroken() bool {
	f := db.health.Current()
	return f != nil && (!f.Passes && !f.Intact || db.logs.Current().Err() != nil)
}
