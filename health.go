package shale

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/shaledb/shale/compaction"
	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/manifest"
	"github.com/shaledb/shale/wal"
)

// A health knows whether the store takes writes, and why not. It is read by every
// write, without a lock.
type health struct {
	healthEnv
	wake    chan struct{}           // to recoverLoop: there may be something to do
	failure atomic.Pointer[failure] // why writes are refused; nil: they are not
}

// A healthEnv is what a health needs from the store.
type healthEnv struct {
	now           func() time.Time
	logSyncFailed func() bool                 // whether a sync of the current log has failed, or there is no log
	refused       func(err error)             // writes are now refused because of err
	resumed       func(refused time.Duration) // they are taken again, after that time
}

// A failure is why writes are refused.
type failure struct {
	err   error
	since time.Time
	// passes says that the store tries by itself to take writes again: the
	// failure is a lack of room, or of something else that may be there later.
	// Other failures end with Resume or with another Open. A sync of the log that
	// has failed is one of those: nobody knows what the disk has.
	passes bool
}

func newHealth(env healthEnv) *health {
	return &health{healthEnv: env, wake: make(chan struct{}, 1)}
}

// err returns why writes are refused, wrapped in ErrReadOnly, or nil.
func (h *health) err() error {
	if f := h.failure.Load(); f != nil {
		return readOnlyError(f.err)
	}
	return nil
}

// lasting returns why writes are refused, wrapped in ErrReadOnly, if that does not
// pass by itself. A failure that may pass is returned as such; nil, nil: there is none.
func (h *health) lasting() (*failure, error) {
	f := h.failure.Load()
	if f != nil && !f.passes {
		return nil, readOnlyError(f.err)
	}
	return f, nil
}

// recovers says whether there is a failure that may pass.
func (h *health) recovers() bool {
	f := h.failure.Load()
	return f != nil && f.passes
}

// logFailed makes writes fail because of err, an error of the log, and returns what
// the present writer gets. A full disk passes, unless a sync has met it.
func (h *health) logFailed(err error) error {
	return h.refuse(err, base.IsNoSpace(err) && !h.logSyncFailed())
}

// refuse makes writes fail because of err, unless an earlier failure does already, and
// returns what the present writer gets. A failure that does not pass
// takes the place of one that would.
func (h *health) refuse(err error, passes bool) error {
	f := &failure{err: err, since: h.now(), passes: passes}
	old := h.failure.Load()
	for old == nil || old.passes && !passes {
		if h.failure.CompareAndSwap(old, f) {
			h.refused(err)
			base.Wake(h.wake)
			break
		}
		old = h.failure.Load()
	}
	return readOnlyError(err)
}

// resolve lets writes go on after the failure f. If the store has failed in a worse way
// meanwhile, they stay refused, and resolve returns why.
func (h *health) resolve(f *failure) error {
	if h.failure.CompareAndSwap(f, nil) {
		h.resumed(h.now().Sub(f.since))
	}
	return h.err()
}

// Err returns the background error that made the store read-only, wrapped in
// ErrReadOnly, or nil. While it is not nil every write returns it. A store that
// lacks room, be it in a file or for another file, takes writes again by itself
// once there is room; then Err returns nil again.
func (db *DB) Err() error {
	return db.health.err()
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
func (db *DB) lastingFailure() (*failure, error) {
	if db.view.Load() == nil {
		return nil, ErrClosed
	}
	if db.opts.ReadOnly {
		return nil, ErrReadOnly
	}
	return db.health.lasting()
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
		case <-db.health.wake:
		}
		// A store that fails again soon after it was resumed is not asked more
		// and more often.
		if time.Since(resumed) > retryDelay(tries) {
			tries = 0
		}
		for db.health.recovers() {
			if tries++; !db.sleepUnless(db.health.wake, retryDelay(tries)) {
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
	if f := db.health.failure.Load(); f != nil {
		return db.resumeFrom(f)
	}
	return nil
}

// resumeFrom is resume for the failure f.
func (db *DB) resumeFrom(f *failure) error {
	if base.IsNoSpace(f.err) {
		db.giveUpReserve()
		db.logs.Current().Shrink()
	}
	if err := db.tryWrites(f); err != nil {
		return err
	}
	return db.health.resolve(f)
}

// tryWrites does what writes could not go on without, or returns why it can't.
// Requires: the caller leads the queue.
func (db *DB) tryWrites(f *failure) error {
	w := db.logs.Current()
	switch {
	case f.passes && w.SyncFailed(): // meanwhile, and whoever synced is about to say so
		return db.health.logFailed(w.Err())
	case !f.passes || w.Err() != nil:
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
	f := db.health.failure.Load()
	return f != nil && (!f.passes || db.logs.Current().Err() != nil)
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

// runPlanInRoom is runPlan that is tried again with what the store can give up of
// its room.
func (db *DB) runPlanInRoom(ctx context.Context, plan *compaction.Plan) error {
	err := db.runPlan(ctx, plan)
	if base.IsNoSpace(err) && db.giveUpRoom() {
		err = db.runPlan(ctx, plan)
	}
	return err
}
