package logset

import (
	"context"
	"fmt"
	"time"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/wal"
)

// A Syncer syncs the log while writers go on.
type Syncer struct {
	env  SyncerEnv
	wake chan struct{} // to Loop: much is unsynced
	soon chan struct{} // to Loop: see Soon
}

// A SyncerEnv is what a Syncer needs from the store.
type SyncerEnv struct {
	Periodic bool               // whether the log is synced at regular times
	Every    time.Duration      // between these, and how long a batch waits that chose SyncPeriodic for itself
	Log      func() *wal.Writer // the current one; nil: there is none
	Failed   func(w *wal.Writer, err error) error
}

// NewSyncer returns a Syncer that does nothing before Loop.
func NewSyncer(env SyncerEnv) *Syncer {
	return &Syncer{env: env, wake: make(chan struct{}, 1), soon: make(chan struct{}, 1)}
}

// Soon asks for a sync within Every: a batch chose SyncPeriodic for itself.
func (s *Syncer) Soon() { base.Wake(s.soon) }

// syncEveryBytes is how many bytes of writes stay unsynced at most before they are synced in
// the background. So a power cut does not meet too many, and damage to the log can be
// distinguished from a torn end. More often would cost writes: what is in the same large
// page of the page cache as the end of the log is written again.
const syncEveryBytes = 32 << 20

// Nudge asks for a sync of the current log, which ends at end, when much of it is
// unsynced, and for write-back before. Requires: the caller leads the commit queue.
func (s *Syncer) Nudge(w *wal.Writer, end int64) {
	if end-w.Synced() > syncEveryBytes || w.WriteBackDue() {
		base.Wake(s.wake)
	}
}

// Loop syncs the log at regular times if it is periodic, some time after a batch that
// chose SyncPeriodic for itself, and whenever many bytes are unsynced. Before they are
// many, it has them written back, or syncs them where the system can't do that.
func (s *Syncer) Loop(ctx context.Context) {
	var tick <-chan time.Time
	if s.env.Periodic {
		t := time.NewTicker(s.env.Every)
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
				soon = time.After(s.env.Every)
			}
		case <-soon:
			soon = nil
			s.sync()
		case <-s.wake:
			if w := s.env.Log(); w != nil && w.WriteBack() && w.Len()-w.Synced() <= syncEveryBytes {
				continue
			}
			s.sync()
		}
	}
}

// sync syncs the log if anything in it is unsynced.
func (s *Syncer) sync() {
	w := s.env.Log()
	if w == nil || w.Synced() >= w.Len() {
		return
	}
	if err := w.Sync(); err != nil {
		_ = s.env.Failed(w, fmt.Errorf("shale: sync log: %w", err)) // writers get it from Err
	}
}
