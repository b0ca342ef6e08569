package shale

import (
	"context"
	"fmt"
	"time"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/manifest"
	"github.com/shaledb/shale/wal"
)

// startBackground starts the goroutines of the store. Close waits for them.
func (db *DB) startBackground() {
	db.background.Go(db.flushLoop)
	if db.opts.CompactionWorkers > 0 {
		db.background.Go(db.compactLoop)
	}
	db.background.Go(db.syncLoop)
	db.background.Go(db.filterLoop)
	wake(db.flushWake)
	wake(db.compactWake)
}

// wake leaves a note for the loop that listens to c.
func wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default: // there is one already
	}
}

// syncEveryBytes is after how many bytes of unsynced writes they are synced in the
// background, so that a power cut does not meet too many, and damage to the log
// is told from a torn end. More often would cost writes: what is in the same large
// page of the page cache as the end of the log is written again.
const syncEveryBytes = 32 << 20

// nudgeSync asks for a background sync when much is unsynced, and for write-back
// before. Requires: the caller leads the queue.
func (db *DB) nudgeSync(end int64) {
	if end-db.wal.Synced() > syncEveryBytes || db.wal.WriteBackDue() {
		wake(db.syncWake)
	}
}

// syncLoop syncs the log every SyncEvery under SyncPeriodic, and whenever many
// bytes are unsynced under all. Before, it has them written back, or syncs them
// where the system can't do that. The writers go on meanwhile.
func (db *DB) syncLoop() {
	var tick <-chan time.Time
	if db.opts.Durability == SyncPeriodic {
		t := time.NewTicker(db.opts.SyncEvery)
		defer t.Stop()
		tick = t.C
	}
	for {
		select {
		case <-db.ctx.Done():
			return
		case <-tick:
			db.syncBehind()
		case <-db.syncWake:
			if w := db.currentLog.Load(); w != nil && w.WriteBack() && w.Len()-w.Synced() <= syncEveryBytes {
				continue
			}
			db.syncBehind()
		case <-db.logWake:
			db.prepareLog()
		}
	}
}

// syncBehind syncs the log behind the writers.
func (db *DB) syncBehind() {
	w := db.currentLog.Load()
	if w == nil || w.Synced() >= w.Len() {
		return
	}
	if err := w.Sync(); err != nil {
		_ = db.syncFailed(w, fmt.Errorf("shale: sync log: %w", err)) // writers get it from Err
	}
}

// syncFailed handles a failed sync of w outside the queue. A log that another
// took over from meanwhile was synced when it was sealed, or is not needed
// because Resume made its writes safe in tables.
func (db *DB) syncFailed(w *wal.Writer, err error) error {
	if w != db.currentLog.Load() {
		return nil
	}
	return db.becomeReadOnly(err)
}

// A failure is why writes are refused.
type failure struct{ err error }

// becomeReadOnly refuses writes from now on because of err, unless an earlier
// error does already, and returns what the writer at hand is to be told.
func (db *DB) becomeReadOnly(err error) error {
	if db.failure.CompareAndSwap(nil, &failure{err: err}) {
		db.emit(Event{Kind: EventReadOnly, Err: err})
		db.broadcast()
	}
	return readOnlyError(err)
}

// Err returns the background error that made the store read-only, wrapped in
// ErrReadOnly, or nil.
func (db *DB) Err() error {
	if f := db.failure.Load(); f != nil {
		return readOnlyError(f.err)
	}
	return nil
}

// Resume tries to leave the state in which a failed write of the log has left
// the store: it makes the memtables safe in tables, begins a new log and lets
// writes go on. Writes that failed stay undone. If the cause persists, Resume
// returns it and the store stays read-only.
func (db *DB) Resume() error {
	if db.opts.ReadOnly {
		return ErrReadOnly
	}
	if err := db.begin(); err != nil {
		return err
	}
	defer db.calls.Done()
	r := db.queue.newRequest()
	defer r.free()
	r.exclusive = db.resume
	if err := db.commit(context.Background(), r); err != nil {
		return err
	}
	return nil
}

// resume is Resume's turn as leader of the queue.
func (db *DB) resume() error {
	if db.failure.Load() == nil {
		return nil
	}
	db.mu.Lock()
	if !db.view.Load().mem.Empty() {
		db.freezeLocked()
	}
	db.mu.Unlock()
	// Once the memtables are tables the broken log is not needed any more,
	// and the numbers of what failed in it must not be given out again.
	if err := db.flushAll(); err != nil {
		return err
	}
	broken := db.wal
	next := db.peekFileNum()
	if err := db.appendEdit(&manifest.Edit{MinLog: next, LastSeq: db.lastSeq}); err != nil {
		return err
	}
	if err := db.startLog(wal.Header{}); err != nil {
		return err
	}
	_ = broken.Close() // it failed before
	db.mu.Lock()
	current := db.logs[len(db.logs)-1]
	db.dropLogsLocked(current.num)
	db.memLog = current.num
	db.mu.Unlock()
	db.failure.Store(nil)
	db.emit(Event{Kind: EventResumed})
	db.deleteObsolete()
	db.broadcast()
	return nil
}

// peekFileNum returns a number that no file has yet and all later ones reach.
func (db *DB) peekFileNum() base.FileNum {
	db.mu.Lock()
	defer db.mu.Unlock()
	return db.nextFileNum
}

// retryDelay is how long background work waits after its n-th failure in a
// row: from 10 ms, doubling, to 5 s.
func retryDelay(n int) time.Duration {
	return min(10*time.Millisecond<<min(n, 10), 5*time.Second)
}
