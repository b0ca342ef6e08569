package commit

import (
	"runtime"
	"sync/atomic"
)

// A gathering decides how long a goroutine that is about to sync waits for other writers.
// These are likely to come within microseconds, while a sync takes about a hundred.
//
// The wait is a number of yields, which adapts: it doubles when waiting paid and halves
// when it did not. Every few times the goroutine waits as long as it may, whatever
// happened before. Two halves of the writers that take turns could otherwise never find
// out that they can share a sync. Only one goroutine at a time uses a gathering.
type gathering struct {
	patience int // number of yields that the next wait may take
	tries    int // number of waits so far
}

const (
	// maxPatience is the largest number of yields in one wait. They take some microseconds.
	maxPatience = 64
	// probeEvery: one in this many waits may take maxPatience.
	probeEvery = 8
)

// await yields the processor until have returns at least want, or until its patience ends.
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
// share one. Before a sync begins, it waits briefly for the writers that the last
// sync served. They were woken just now and are likely to write again. Without
// the wait, two halves of them would wait for each other's syncs in turn.
//
// It implements wal.SyncObserver. Only one sync runs at a time.
// The goroutine that syncs owns the fields that are not atomic.
type syncSharing struct {
	writers atomic.Int64 // writers whose synced write is in progress
	logged  atomic.Int64 // number of synced writes that were ever logged

	covered  int64 // how many of these the last sync included
	together int   // value of writers at the end of the last sync
	gather   gathering
}

// BeforeSync implements wal.SyncObserver.
func (s *syncSharing) BeforeSync() {
	s.gather.await(s.together, func() int { return int(s.logged.Load() - s.covered) })
	s.covered = s.logged.Load()
}

// AfterSync implements wal.SyncObserver.
func (s *syncSharing) AfterSync() { s.together = int(s.writers.Load()) }
