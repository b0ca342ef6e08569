package shale

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/shaledb/shale/internal/lockorder"
)

// This file has events, which tell what happens in the background.

// What happens in the background becomes an Event. emit remembers it for RecentEvents, and
// passes it to the Logger and to OnEvent. It is called by whoever did the work, and returns
// when the listeners have. Listeners are the program's code, so each call has a goroutine
// of its own (survive): a panic or runtime.Goexit there must not end the work of the store,
// or leave the commit queue without a leader.

// An EventKind says what an Event reports.
type EventKind int

// The events.
const (
	EventFlush           EventKind = iota // a memtable became a table
	EventCompaction                       // tables were merged, moved to a deeper level, or dropped
	EventStallBegin                       // writers are held back; Reason says why
	EventStallEnd                         // writers are held back no longer; Duration says how long they were
	EventReadOnly                         // the store became read-only because of Err: DB.Err reports whether it still is
	EventResumed                          // it takes writes again, by itself or by Resume; Duration says how long it did not
	EventCorruption                       // a read met damage: Err is a *CorruptionError
	EventFilterUnusable                   // a filter, in a table or next to it, can't be used; without another one lookups read a block
	EventBackgroundError                  // background work failed and will be tried again
	EventFilterWorse                      // a table's filter lets pass more absent keys than predicted; Reason has the rates
	EventIngest                           // sorted entries became tables at once
	EventTableSetAside                    // a compaction met damage in a table: automatic ones leave it alone until Verify finds it whole, or until the next Open
)

var eventNames = [...]string{
	EventFlush:           "flush",
	EventCompaction:      "compaction",
	EventStallBegin:      "stall begin",
	EventStallEnd:        "stall end",
	EventReadOnly:        "read-only",
	EventResumed:         "resumed",
	EventCorruption:      "corruption",
	EventFilterUnusable:  "filter unusable",
	EventBackgroundError: "background error",
	EventFilterWorse:     "filter worse than predicted",
	EventIngest:          "ingest",
	EventTableSetAside:   "table set aside",
}

// String returns the kind's name in lower case.
func (k EventKind) String() string {
	if k < 0 || int(k) >= len(eventNames) {
		return fmt.Sprintf("event %d", int(k))
	}
	return eventNames[k]
}

// An Event is something that happened in the background. Fields that do not
// apply to its kind are zero.
type Event struct {
	Kind     EventKind
	Time     time.Time     // when it happened, or ended
	Duration time.Duration // how long it took
	// Reason is why it was done. Of a compaction it is "level 0", "size", "tombstones", "often read" (by lookups and
	// seeks) or "range" (by Compact).
	Reason   string
	Level    int      // to which level
	Tables   []uint64 // the numbers of the tables that were written, or that it is about
	BytesIn  int64    // of the tables that were merged, or of the memtable that was flushed
	BytesOut int64    // of tables that were written
	Err      error    // why it failed, or what was met; nil: nothing
}

// An eventLog passes events on to the program's listeners, and remembers the last ones. It
// has no lock of its own, and so listeners may be called by several goroutines at a time.
// All fields but recent and failed are constant after Open; recent has a lock.
type eventLog struct {
	recent   recentLog
	listener func(Event)  // Options.OnEvent, or nil
	logger   *slog.Logger // Options.Logger, or nil
	dir      string       // of the store, for the logger
	now      func() time.Time
	failed   atomic.Bool // a listener panicked, and that was reported
}

// emit remembers e, passes it to the logger and to Options.OnEvent, and returns when
// they have. Listeners must not call the store: the caller may lead the commit queue.
// Requires: the caller holds no lock that a read takes, so that reads never wait for a
// listener. That nothing works in a directory that is lost is said once, by EventReadOnly.
func (l *eventLog) emit(e Event) {
	if e.Kind == EventBackgroundError && errors.Is(e.Err, ErrMoved) {
		return
	}
	e.Time = l.now()
	l.recent.add(e)
	if l.isLogged(e) {
		l.report("Logger", e, l.log, l.listener)
	}
	if l.listener != nil {
		l.report("OnEvent", e, l.listener, l.log)
	}
}

// report passes e to a listener. If that panics or calls runtime.Goexit, the store goes on,
// and the other listener gets an event that says so, the first time only.
func (l *eventLog) report(name string, e Event, listener, other func(Event)) {
	failure := survive(listener, e)
	if failure == "" || !l.failed.CompareAndSwap(false, true) {
		return
	}
	e = Event{
		Kind: EventBackgroundError, Time: e.Time, Reason: "listener",
		Err: fmt.Errorf("shale: %s %s in the event %q; the store goes on, and says this once", name, failure, e.Kind),
	}
	l.recent.add(e)
	if other != nil {
		_ = survive(other, e) // nobody is left to hear of a second failure
	}
}

// survive calls fn in a goroutine of its own, which is the only way to outlive
// runtime.Goexit. It returns how fn failed; "" means that fn returned. Events are rare, and
// a goroutine takes a microsecond.
func survive(fn func(Event), e Event) (failure string) {
	// Goexit runs the deferred functions and recovers nothing, so this stays.
	failure = "called runtime.Goexit"
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			if p := recover(); p != nil {
				failure = fmt.Sprintf("panicked: %v", p)
			}
		}()
		fn(e)
		failure = ""
	}()
	<-done
	return failure
}

// isLogged reports whether e is to go to a log.
func (l *eventLog) isLogged(e Event) bool {
	if l.logger != nil {
		return true
	}
	// Without a Logger only trouble is logged, and only if no listener hears of it.
	return l.listener == nil && (e.Err != nil || e.Kind == EventFilterUnusable || e.Kind == EventFilterWorse)
}

// log writes e to the Logger, or to the default one. Fields that do not apply are left out.
func (l *eventLog) log(e Event) {
	level := slog.LevelDebug
	switch {
	case e.Err != nil && e.Kind != EventFilterUnusable:
		level = slog.LevelError
	case e.Kind == EventStallBegin, e.Kind == EventFilterUnusable, e.Kind == EventFilterWorse, e.Kind == EventResumed:
		level = slog.LevelWarn
	}
	logger := l.logger
	if logger == nil {
		logger = slog.Default()
	}
	args := []any{"dir", l.dir}
	add := func(name string, value any, given bool) {
		if given {
			args = append(args, name, value)
		}
	}
	add("reason", e.Reason, e.Reason != "")
	add("level", e.Level, e.Kind == EventFlush || e.Kind == EventCompaction || e.Kind == EventIngest)
	add("tables", e.Tables, len(e.Tables) > 0)
	add("in", e.BytesIn, e.BytesIn > 0)
	add("out", e.BytesOut, e.BytesOut > 0)
	add("took", e.Duration, e.Duration > 0)
	add("err", e.Err, e.Err != nil)
	logger.Log(context.Background(), level, "shale: "+e.Kind.String(), args...)
}

// backgroundError reports an error that does not end the work that met it.
func (db *DB) backgroundError(what string, err error) {
	db.events.emit(Event{Kind: EventBackgroundError, Reason: what, Err: err})
}

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
func (i Inspector) RecentEvents() []Event { return i.db.events.recent.list() }

// A recentLog remembers the last events. The zero value is ready. mu guards the rings.
type recentLog struct {
	mu          lockorder.Mutex[lockorder.Leaf]
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

// An eventRing holds the last events added. Its memory grows only as far as there are any.
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
