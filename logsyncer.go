package shale

import (
	"fmt"
	"time"
)

// syncEveryBytes is after how many bytes of unsynced writes they are synced in the
// background, so that a power cut does not meet too many, and damage to the log
// is told from a torn end. More often would cost writes: what is in the same large
// page of the page cache as the end of the log is written again.
const syncEveryBytes = 32 << 20

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
