package remote

import (
	"fmt"
	"time"
)

// What happens in the background of a Store and a Reader, as a program may want to log or count it.
// Nothing depends on whether anybody listens.

// An EventKind says what an Event reports.
type EventKind int

// The events.
const (
	EventAway       EventKind = iota // the bucket does not answer, or refuses what it is asked; it is tried again and again
	EventBack                        // the bucket has done all that had failed; Duration says how long that took
	EventWait                        // writers wait, as MaxLag says
	EventGoOn                        // writers wait no longer; Duration says how long they did
	EventFenced                      // another writer owns the store: this one does not write any more
	EventPublished                   // a step is in the bucket: Step, Tables and Bytes say what it brought
	EventCollected                   // what no step and no pin needs was deleted; Err: the bucket refuses that (see Collect)
	EventBackground                  // work failed for another reason than the bucket: the local disk, or a damaged file, which Err names; it is tried again
	EventLetGo                       // more logs than MaxKept waited for the bucket and were let go: a restore can't go to what was written meanwhile, until the next step
)

// eventNames are what programs log, and what people search their logs for. So they stay as they
// are.
var eventNames = [...]string{
	EventAway:       "bucket away",
	EventBack:       "bucket back",
	EventWait:       "writers wait",
	EventGoOn:       "writers go on",
	EventFenced:     "fenced",
	EventPublished:  "published",
	EventCollected:  "collected",
	EventBackground: "background error",
	EventLetGo:      "logs let go",
}

// String returns the kind's name in lower case.
func (k EventKind) String() string {
	if k < 0 || int(k) >= len(eventNames) {
		return fmt.Sprintf("event %d", int(k))
	}
	return eventNames[k]
}

// An Event is something that happened in the background. Fields that do not apply to its kind are
// zero.
type Event struct {
	Kind     EventKind
	Time     time.Time     // when it happened, or ended
	Duration time.Duration // how long it took
	Reason   string        // what was done, or why
	Step     uint64        // the number of the step
	Tables   int           // tables and sidecars that were uploaded
	Objects  int           // that were deleted
	Bytes    int64         // that were uploaded, deleted, or let go
	Err      error         // why it failed; nil: it did not
}
