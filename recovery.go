package shale

import (
	"context"
	"errors"
	"time"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/health"
	"github.com/shaledb/shale/manifest"
	"github.com/shaledb/shale/wal"
)

// Err returns the background error that made the store read-only, wrapped in
// ErrReadOnly, or nil. While it is not nil every write returns it. A store that
// lacks room, be it in a file or for another file, takes writes again by itself
// once there is room; then Err returns nil again.
func (db *DB) Err() error {
	return db.health.Err()
}

// Resume tries at once to leave the state in which Err is not nil. A store that
// lacks room tries that by itself as well, but up to five seconds later. After any
// other failed write of the log, or a failed sync, only Resume (or another Open)
// ends that state: it makes the memtables safe in tables, begins a new log and lets
// writes go on. Writes that nobody has seen before they failed stay undone; a
// write that was visible, and of which only the sync failed, is kept. If the cause
// persists, Resume returns it and the store stays read-only.
func (db *DB) Resume() error {
	if db.opts.ReadOnly {
		return ErrReadOnly
	}
	if err := db.begin(); err != nil {
		return err
	}
	defer db.calls.Done()
	return db.commits.Alone(context.Background(), db.resume)
}

// usable is writable for calls that do not write entries. A failure that may pass
// does not refuse them: it is tried whether it has passed, for the caller may
// have removed its cause.
func (db *DB) usable() error {
	f, err := db.lastingFailure()
	if err != nil || f == nil {
		return err
	}
	return db.commits.Alone(context.Background(), db.resumePassing)
}

// lastingFailure returns why nothing can be written, unless that may pass: then it
// returns the failure.
func (db *DB) lastingFailure() (*health.Failure, error) {
	if db.view.Load() == nil {
		return nil, ErrClosed
	}
	if db.opts.ReadOnly {
		return nil, ErrReadOnly
	}
	return db.health.Lasting()
}

// recoverLoop lets a store take writes again when what it lacked is there again. It
// tries again and again, later each time, and at once when a flush or a
// compaction has succeeded.
func (db *DB) recoverLoop() {
	var resumed time.Time
	for tries := 0; ; {
		select {
		case <-db.ctx.Done():
			return
		case <-db.health.Woken():
		}
		// A store that fails again soon after it was resumed is not asked more
		// and more often.
		if time.Since(resumed) > retryDelay(tries) {
			tries = 0
		}
		for db.health.Recovers() {
			if tries++; !db.sleepUnless(db.health.Woken(), retryDelay(tries)) {
				return
			}
			if db.commits.Alone(db.ctx, db.resumePassing) == nil {
				resumed = time.Now()
			} else {
				db.counters.retries.Add(1)
			}
		}
	}
}

// resumePassing is resume that leaves a failure alone which does not pass: it may
// have come since the caller looked. Requires: the caller leads the queue.
func (db *DB) resumePassing() error {
	f, err := db.lastingFailure()
	if err != nil || f == nil {
		return err
	}
	return db.resumeFrom(f)
}

// resume ends the refusal of writes if what was in their way is not any more.
// Requires: the caller leads the queue.
func (db *DB) resume() error {
	if f := db.health.Current(); f != nil {
		return db.resumeFrom(f)
	}
	return nil
}

// resumeFrom is resume for the failure f.
func (db *DB) resumeFrom(f *health.Failure) error {
	if base.IsNoSpace(f.Err) {
		db.giveUpReserve()
		db.logs.Current().Shrink()
	}
	if err := db.tryWrites(f); err != nil {
		return err
	}
	return db.health.Resolve(f)
}

// tryWrites does what writes could not go on without, or returns why it can't.
// Requires: the caller leads the queue.
func (db *DB) tryWrites(f *health.Failure) error {
	w := db.logs.Current()
	switch {
	case f.Passes && w.SyncFailed(): // meanwhile, and whoever synced is about to say so
		return db.health.LogFailed(w.Err())
	case !f.Passes || w.Err() != nil:
		return db.replaceLog()
	case db.logs.IsFull(): // the next log could not be created
		if err := db.changeLogs(); err != nil {
			return err
		}
	default:
		if err := w.Reserve(); err != nil {
			return err
		}
	}
	if err := db.retryFlush(); err != nil {
		return err
	}
	return db.retryCompaction()
}

// retryPatience is how long Resume waits for a compaction that it has tried again.
const retryPatience = 10 * time.Second

// retryCompaction returns why level 0 can't be made shallower, if writers wait for that.
// What an earlier compaction has failed with may be over by now, so one is tried again
// first.
func (db *DB) retryCompaction() error {
	stuck := func() error { return db.stuck(db.stallReason()) }
	var damage *CorruptionError
	if err := stuck(); err == nil || errors.As(err, &damage) {
		return err
	}
	ctx, cancel := context.WithTimeout(db.ctx, retryPatience)
	defer cancel()
	ended := db.scheduler.RetryNow()
	db.changes.await(ctx, func() bool { return ended() || ctx.Err() != nil })
	if db.closing() {
		return ErrClosed
	}
	return stuck()
}

// replaceLog makes all writes of a broken log safe in tables and begins another.
// Requires: the caller leads the queue.
func (db *DB) replaceLog() error {
	db.view.freeze(db.newMemtable)
	// Once the memtables are tables the broken log is not needed any more,
	// and the numbers of what failed in it must not be given out again.
	if err := db.flusher.flushAll(); err != nil {
		return err
	}
	broken := db.logs.Current()
	next := db.tree.PeekFileNum()
	if err := db.tree.AppendEdit(&manifest.Edit{MinLog: next, LastSeq: db.commits.Last()}); err != nil {
		return err
	}
	if err := db.logs.Begin(wal.Header{StoreID: db.storeID}); err != nil {
		return err
	}
	_ = broken.Close() // it failed before
	current := db.logs.CurrentNum()
	db.view.setLog(current)
	db.removeFiles(db.logs.DropBelow(current)...)
	return nil
}

// logBroken tells whether the log can't tell what it holds: then it is neither
// sealed nor said to be whole.
func (db *DB) logBroken() bool {
	f := db.health.Current()
	return f != nil && (!f.Passes || db.logs.Current().Err() != nil)
}

// giveUpFor gives up what the store has reserved ahead if err says that the disk
// is full, and tells whether it is worthwhile to try again.
func (db *DB) giveUpFor(what string, err error) bool {
	if !base.IsNoSpace(err) || !db.giveUpReserve() {
		return false
	}
	db.events.emit(Event{Kind: EventBackgroundError, Reason: "no room: " + what, Err: err})
	return true
}

// giveUpReserve gives back the room that the store holds without need, which are
// the log that was prepared and those kept to be used again, and tells whether
// there was any.
func (db *DB) giveUpReserve() (any bool) {
	any = db.logs.GiveUp()
	db.awaitDeletions(db.ctx) // only then is there more room
	return any
}

// leadPatience is how long giveUpRoom waits for its turn to lead the queue: the
// leader may wait for what the caller does.
const leadPatience = 100 * time.Millisecond

// giveUpRoom is giveUpReserve that also gives back what is reserved in the log.
// Requires: the caller does not lead the queue and holds no lock.
func (db *DB) giveUpRoom() (any bool) {
	any = db.giveUpReserve()
	ctx, cancel := context.WithTimeout(db.ctx, leadPatience)
	defer cancel()
	shrunk := false
	_ = db.commits.Alone(ctx, func() error { // without a turn the log stays as it is
		shrunk = db.logs.Current().Shrink()
		return nil
	})
	return any || shrunk
}
