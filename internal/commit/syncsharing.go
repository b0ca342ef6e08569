package commit

import (
	"runtime"
	"sync/atomic"
)

// A gathering decides how long a goroutine that is about to sync waits for
// writers who are likely to come within microseconds, where a sync takes a
// hundred. It tries less when they have other things to do, but every few times
// as long as it may: writers who take turns in two halves show in no other way
// that they could share. One goroutine at a time uses it.
type gathering struct {
	patience int // how often it yields
	tries    int
}

const (
	// maxPatience is how often a gathering lets others run: for some microseconds.
	maxPatience = 64
	// probeEvery is how often it yields that often, whatever came of it lately.
	probeEvery = 8
)

// await yields until have returns at least want, or patience ends.
func (g *gathering) await(want int, have func() int) {
	if want <= 1 {
		return
	}
	g.patience = max(g.patience, 1)
	g.tries++
	patience := g.patience
	if g.tries%probeEvery == 0 {
		patience = maxPatience
	}
	for yields := range patience {
		if have() >= want {
			g.patience = min(2*max(g.patience, yields), maxPatience)
			return
		}
		runtime.Gosched()
	}
	g.patience /= 2
}

// A syncSharing lets writers that wait for a sync of the log outside the queue
// share one. Before a sync begins, it waits for the writers that the last one
// served: they were woken just now, and are likely to write again. Else half of
// them would wait for each other's syncs by turns.
//
// It implements wal.SyncObserver. Only one sync runs at a time, so what is not
// atomic belongs to the goroutine that syncs.
type syncSharing struct {
	writers atomic.Int64 // whose synced writes are under way
	logged  atomic.Int64 // synced writes that are in the log

	covered  int64 // of these, how many the last sync covered
	together int   // writers that were under way at the end of the last sync
	gather   gathering
}

// BeforeSync implements wal.SyncObserver.
func (s *syncSharing) BeforeSync() {
	s.gather.await(s.together, func() int { return int(s.logged.Load() - s.covered) })
	s.covered = s.logged.Load()
}

// AfterSync implements wal.SyncObserver.
func (s *syncSharing) AfterSync() { s.together = int(s.writers.Load()) }
