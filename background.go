package shale

import (
	"fmt"
	"time"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/wal"
)

// startBackground starts the goroutines of the store. Close waits for them.
func (db *DB) startBackground() {
	db.deleter.start()
	db.background.Go(func() { db.deleter.loop(db.ctx) })
	db.background.Go(func() { db.flusher.loop(db.ctx) })
	if db.opts.CompactionWorkers > 0 {
		db.background.Go(db.compactLoop)
	}
	db.background.Go(db.syncLoop)
	db.background.Go(db.prepareLoop)
	db.background.Go(func() { db.filters.loop(db.ctx) })
	db.background.Go(db.recoverLoop)
	wake(db.flusher.wake)
	wake(db.scheduler.wake)
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

// appendLog appends payloads to the log and asks for background syncs of it. Requires:
// the caller leads the queue.
func (db *DB) appendLog(payloads [][]byte, last base.Seq, syncNext bool) error {
	end, err := db.logs.append(payloads, last, syncNext)
	if err == nil {
		db.nudgeSync(end)
	}
	return err
}

// nudgeSync asks for a background sync when much is unsynced, and for write-back
// before. Requires: the caller leads the queue.
func (db *DB) nudgeSync(end int64) {
	w := db.logs.current.Load()
	if end-w.Synced() > syncEveryBytes || w.WriteBackDue() {
		wake(db.syncWake)
	}
}

// syncLoop syncs the log every SyncEvery under SyncPeriodic, SyncEvery after a
// batch that chose SyncPeriodic for itself, and whenever many bytes are unsynced
// under all. Before, it has them written back, or syncs them
// where the system can't do that. The writers go on meanwhile.
func (db *DB) syncLoop() {
	var tick <-chan time.Time
	if db.opts.Durability == SyncPeriodic {
		t := time.NewTicker(db.opts.SyncEvery)
		defer t.Stop()
		tick = t.C
	}
	var soon <-chan time.Time // nil: no batch waits for it
	for {
		select {
		case <-db.ctx.Done():
			return
		case <-tick:
			db.syncBehind()
		case <-db.syncSoon:
			if soon == nil {
				soon = time.After(db.opts.SyncEvery)
			}
		case <-soon:
			soon = nil
			db.syncBehind()
		case <-db.syncWake:
			if w := db.logs.current.Load(); w != nil && w.WriteBack() && w.Len()-w.Synced() <= syncEveryBytes {
				continue
			}
			db.syncBehind()
		}
	}
}

// prepareLoop makes the files of the next logs. It is not the goroutine that syncs:
// making a file may take longer than SyncEvery.
func (db *DB) prepareLoop() {
	for {
		select {
		case <-db.ctx.Done():
			return
		case <-db.logs.wake:
			if !db.closing() && db.health.failure.Load() == nil {
				db.logs.prepare()
			}
		}
	}
}

// syncBehind syncs the log behind the writers.
func (db *DB) syncBehind() {
	w := db.logs.current.Load()
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
	if w != db.logs.current.Load() {
		return nil
	}
	return db.health.logFailed(err)
}

// retryDelay returns how long background work waits after its n-th failure in a
// row. The delay is 20 ms after the first and doubles, up to 5 s.
func retryDelay(n int) time.Duration {
	return min(10*time.Millisecond<<min(n, 10), 5*time.Second)
}
