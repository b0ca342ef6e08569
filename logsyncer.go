package shale

import (
	"context"
	"fmt"
	"time"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/wal"
)

// A logSyncer syncs the log behind the writers, who go on meanwhile.
type logSyncer struct {
	logSyncerEnv
	wake chan struct{} // to loop: much is unsynced
	soon chan struct{} // to loop: a batch chose SyncPeriodic for itself
}

// A logSyncerEnv is what a logSyncer needs from the store.
type logSyncerEnv struct {
	periodic bool               // whether the log is synced at regular times
	every    time.Duration      // between these, and how long a batch waits that chose SyncPeriodic for itself
	log      func() *wal.Writer // the current one; nil: there is none
	failed   func(w *wal.Writer, err error) error
}

func newLogSyncer(env logSyncerEnv) *logSyncer {
	return &logSyncer{logSyncerEnv: env, wake: make(chan struct{}, 1), soon: make(chan struct{}, 1)}
}

// syncEveryBytes is after how many bytes of unsynced writes they are synced in the
// background, so that a power cut does not meet too many, and damage to the log
// is told from a torn end. More often would cost writes: what is in the same large
// page of the page cache as the end of the log is written again.
const syncEveryBytes = 32 << 20

// nudge asks for a sync of the current log, which ends at end, when much of it is
// unsynced, and for write-back before. Requires: the caller leads the commit queue.
func (s *logSyncer) nudge(w *wal.Writer, end int64) {
	if end-w.Synced() > syncEveryBytes || w.WriteBackDue() {
		base.Wake(s.wake)
	}
}

// loop syncs the log at regular times if it is periodic, some time after a batch that
// chose SyncPeriodic for itself, and whenever many bytes are unsynced. Before they are
// many, it has them written back, or syncs them where the system can't do that.
func (s *logSyncer) loop(ctx context.Context) {
	var tick <-chan time.Time
	if s.periodic {
		t := time.NewTicker(s.every)
		defer t.Stop()
		tick = t.C
	}
	var soon <-chan time.Time // nil: no batch waits for it
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick:
			s.sync()
		case <-s.soon:
			if soon == nil {
				soon = time.After(s.every)
			}
		case <-soon:
			soon = nil
			s.sync()
		case <-s.wake:
			if w := s.log(); w != nil && w.WriteBack() && w.Len()-w.Synced() <= syncEveryBytes {
				continue
			}
			s.sync()
		}
	}
}

// sync syncs the log if anything in it is unsynced.
func (s *logSyncer) sync() {
	w := s.log()
	if w == nil || w.Synced() >= w.Len() {
		return
	}
	if err := w.Sync(); err != nil {
		_ = s.failed(w, fmt.Errorf("shale: sync log: %w", err)) // writers get it from Err
	}
}
