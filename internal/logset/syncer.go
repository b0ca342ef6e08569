package logset

import (
	"context"
	"fmt"
	"time"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/wal"
)

// A Syncer syncs the current log in the background, while writers continue.
type Syncer struct {
	logs *Set
	env  SyncerEnv
	wake chan struct{} // to Loop: many bytes are unsynced
	soon chan struct{} // to Loop: see Soon
}

// A SyncerEnv is what a Syncer needs from the store.
type SyncerEnv struct {
	Periodic bool                                 // sync the log at regular times
	Every    time.Duration                        // the time between these syncs, and the delay of Soon
	Failed   func(w *wal.Writer, err error) error // takes note that a sync of w has failed
}

// NewSyncer returns the Syncer of l. It does nothing until Loop runs. It is called once, before l
// has a log.
func (l *Set) NewSyncer(env SyncerEnv) *Syncer {
	l.syncer = &Syncer{logs: l, env: env, wake: make(chan struct{}, 1), soon: make(chan struct{}, 1)}
	return l.syncer
}

// Soon asks for a sync within Every. It is called for
// a batch that has chosen SyncPeriodic for itself.
func (s *Syncer) Soon() { base.Wake(s.soon) }

// syncEveryBytes is how many bytes may be unsynced before the log is synced
// in the background. The limit bounds what a power cut can lose, and it
// allows recovery to distinguish damage from a torn end. More frequent syncs
// would slow down writes: the page cache holds the log in large pages, and
// the page with the end of the log is written again at each sync.
const syncEveryBytes = 32 << 20

// nudge wakes Loop if much of the current log is unsynced, or if
// it is time for write-back. end is the length of the log in
// bytes. Requires: the caller is the leader of the commit queue.
func (s *Syncer) nudge(w *wal.Writer, end int64) {
	if end-w.Synced() > syncEveryBytes || w.WriteBackDue() {
		base.Wake(s.wake)
	}
}

// Loop syncs the log in the background until ctx is done. There are three occasions:
//
//   - at regular times, if Periodic is set;
//   - within Every of a call of Soon;
//   - when many bytes are unsynced. Before that, it starts the write-back of these bytes,
//     so that the sync has less to do. Where the system has no such call, it syncs.
func (s *Syncer) Loop(ctx context.Context) {
	var tick <-chan time.Time
	if s.env.Periodic {
		t := time.NewTicker(s.env.Every)
		defer t.Stop()
		tick = t.C
	}
	var soon <-chan time.Time // nil: no call of Soon waits for a sync
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
			if w := s.logs.Current(); w != nil && w.WriteBack() && w.Len()-w.Synced() <= syncEveryBytes {
				continue
			}
			s.sync()
		}
	}
}

// sync syncs the log if a part of it is unsynced.
func (s *Syncer) sync() {
	w := s.logs.Current()
	if w == nil || w.Synced() >= w.Len() {
		return
	}
	if err := base.Survive(w.Sync); err != nil {
		_ = s.env.Failed(w, fmt.Errorf("shale: sync log: %w", err)) // writers get the error from Health.Err
	}
}
