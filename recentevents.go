package shale

import (
	"slices"
	"sync"
)

// recentEvents is how many events of either sort RecentEvents remembers, and
// recentTables how many tables of one.
const (
	recentEvents = 256
	recentTables = 64
)

// RecentEvents returns what happened in the background lately, oldest first: the
// last 256 flushes and compactions that succeeded, and the last 256 of all other
// events, so that neither displaces the other. Of an event with many tables it
// has the first 64. It works on a closed store too.
func (db *DB) RecentEvents() []Event { return db.events.recent.list() }

// recentLog remembers the last events. The zero value is ready.
type recentLog struct {
	mu          sync.Mutex
	work, other eventRing
}

func (l *recentLog) add(e Event) {
	if len(e.Tables) > recentTables {
		e.Tables = slices.Clone(e.Tables[:recentTables])
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if e.Kind == EventFlush || e.Kind == EventCompaction {
		l.work.add(e)
	} else {
		l.other.add(e)
	}
}

func (l *recentLog) list() []Event {
	l.mu.Lock()
	all := append(l.work.list(), l.other.list()...)
	l.mu.Unlock()
	slices.SortStableFunc(all, func(a, b Event) int { return a.Time.Compare(b.Time) })
	for i := range all {
		all[i].Tables = slices.Clone(all[i].Tables)
	}
	return all
}

// An eventRing holds the last events added, in a memory that grows only as far
// as there are any.
type eventRing struct {
	events []Event
	next   int // where the oldest is, once it is full
}

func (r *eventRing) add(e Event) {
	if len(r.events) < recentEvents {
		r.events = append(r.events, e)
		return
	}
	r.events[r.next] = e
	r.next = (r.next + 1) % recentEvents
}

func (r *eventRing) list() []Event {
	return append(slices.Clone(r.events[r.next:]), r.events[:r.next]...)
}
