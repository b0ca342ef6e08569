package shale

import (
	"fmt"
	"log/slog"
	"time"
)

// An EventKind says what an Event reports.
type EventKind int

// The events.
const (
	EventFlush           EventKind = iota // memtables became a table, or failed to
	EventCompaction                       // tables were merged, moved or dropped, or that failed
	EventStallBegin                       // writers are held back; Reason says why
	EventStallEnd                         // and no longer; Duration says how long it was
	EventReadOnly                         // the store became read-only because of Err
	EventResumed                          // and writable again
	EventCorruption                       // a read met damage: Err is a *CorruptionError
	EventFilterUnusable                   // a filter, in a table or beside it, can't be used; without another one lookups read a block
	EventBackgroundError                  // background work failed and will be tried again
	EventFilterWorse                      // a table's filter lets pass more absent keys than predicted; Reason has the rates
	EventIngest                           // sorted entries became tables at once
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
	Time     time.Time
	Duration time.Duration
	Reason   string // why it was done; of a compaction "level 0", "size", "tombstones", "often read" (by seeks), "range" (by Compact)
	Level    int    // to which level
	Tables   []uint64
	BytesIn  int64
	BytesOut int64
	Err      error
}

// emit remembers e and tells the logger and Options.OnEvent of it. Requires: mu is not held; the
// locks of flushes and of the manifest may be.
func (db *DB) emit(e Event) {
	e.Time = db.opts.testing.now()
	db.recent.add(e)
	db.log(e)
	if db.opts.OnEvent != nil {
		db.opts.OnEvent(e)
	}
}

func (db *DB) log(e Event) {
	level := slog.LevelDebug
	switch {
	case e.Err != nil && e.Kind != EventFilterUnusable:
		level = slog.LevelError
	case e.Kind == EventStallBegin, e.Kind == EventFilterUnusable, e.Kind == EventFilterWorse, e.Kind == EventResumed:
		level = slog.LevelWarn
	}
	logger := db.opts.Logger
	if logger == nil {
		if level < slog.LevelError && e.Kind != EventFilterUnusable && e.Kind != EventFilterWorse || db.opts.OnEvent != nil {
			return // somebody listens, or nobody needs to hear
		}
		logger = slog.Default()
	}
	args := []any{"dir", db.dir}
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
	logger.Log(db.ctx, level, "shale: "+e.Kind.String(), args...)
}
