package main

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"runtime"
	"strconv"
	"time"

	"github.com/shaledb/shale/bloom/sketch"
)

// day is what the counts cover. The window has a generation for each hour. At the end of an
// hour it keeps this hour and the 23 before.
const day = 24 * time.Hour

// A counter counts different visitors in the last 24 hours.
type counter struct {
	config
	out io.Writer

	now    time.Time            // the latest time of the log; the clock of the window
	hour   time.Time            // the beginning of the current hour
	window *sketch.Window       // nil before the first visit
	seen   map[string]time.Time // when a visitor came last; only with -check

	visits               int // of the hour
	lines, invalid, late int // of the whole log
	most                 float64
	size                 int // largest size of the window, in bytes
}

// line counts a line of the log. A line that is earlier than the one before counts as of the
// same time, because servers write some lines late.
func (k *counter) line(line []byte) error {
	k.lines++
	at, visitor, ok := parse(line)
	if !ok {
		k.invalid++
		return nil
	}
	if k.window == nil {
		if err := k.begin(at); err != nil {
			return err
		}
	}
	if at.Before(k.now) {
		k.late++
	} else {
		k.endHours(at)
		k.now = at
	}
	k.visits++
	if err := k.window.Add(visitor); err != nil {
		return err
	}
	if k.check {
		k.seen[string(visitor)] = k.now
	}
	return nil
}

// begin makes the window at the beginning of an hour, so that its generations are hours.
func (k *counter) begin(at time.Time) (err error) {
	k.now = at.Truncate(time.Hour)
	k.hour = k.now
	const before = day - time.Hour // a generation is kept for as long after its hour
	k.window, err = sketch.NewWindow(sketch.WindowOptions{
		Age:         before,
		Generations: int(before / time.Hour),
		Keys:        k.hourly * uint64(before/time.Hour),
		FPR:         k.fpr,
		Now:         func() time.Time { return k.now },
	})
	if k.check {
		k.seen = make(map[string]time.Time)
	}
	return err
}

// endHours reports the hours that have ended at a time. In a pause of more than a day, it
// leaves out the hours without visitors.
func (k *counter) endHours(at time.Time) {
	for reports := 0; !at.Before(k.hour.Add(time.Hour)); reports++ {
		if reports == int(day/time.Hour) {
			k.hour = at.Truncate(time.Hour)
			return
		}
		k.now = k.hour.Add(time.Hour - 1) // the last moment of the hour
		k.report(k.hour.Add(time.Hour))
		k.hour = k.hour.Add(time.Hour)
		k.visits = 0
	}
}

// report prints the count at a time, the end of the hour or of the log.
func (k *counter) report(at time.Time) {
	n := k.window.EstimatedCount()
	k.most = max(k.most, n)
	k.size = max(k.size, k.window.SizeBytes())
	fmt.Fprintf(k.out, "%s: %d visits; %.0f visitors in 24 hours", at.Format("2006-01-02 15:04"), k.visits, n)
	if k.check {
		exact := k.exact()
		fmt.Fprintf(k.out, "; by the map %d (%+.2f %%)", exact, 100*(n/math.Max(float64(exact), 1)-1))
	}
	fmt.Fprintln(k.out)
}

// exact removes from the map who has not come for 24 hours, and returns how many are left.
func (k *counter) exact() int {
	for visitor, at := range k.seen {
		if k.hour.Add(time.Hour).Sub(at) > day {
			delete(k.seen, visitor)
		}
	}
	return len(k.seen)
}

// parse reads a line: a time, a space, and the visitor.
func parse(line []byte) (at time.Time, visitor []byte, ok bool) {
	stamp, visitor, _ := bytes.Cut(bytes.TrimSpace(line), []byte(" "))
	visitor = bytes.TrimSpace(visitor)
	if len(visitor) == 0 {
		return at, nil, false
	}
	if seconds, err := strconv.ParseInt(string(stamp), 10, 64); err == nil {
		return time.Unix(seconds, 0).UTC(), visitor, seconds >= 0 && seconds < 1<<32
	}
	at, err := time.Parse(time.RFC3339, string(stamp))
	return at.UTC(), visitor, err == nil && at.Unix() >= 0 && at.Unix() < 1<<32
}

// summary reports the hour that has not ended, and prints the sums over the whole log.
func (k *counter) summary() {
	if k.window == nil {
		fmt.Fprintf(k.out, "No line of %d has a time and a visitor.\n", k.lines)
		return
	}
	k.report(k.now)
	fmt.Fprintf(k.out, "%d lines, %d without a time or a visitor, %d earlier than the line before.\n", k.lines, k.invalid, k.late)
	fmt.Fprintf(k.out, "The window took %d bytes for at most %.0f visitors in 24 hours. Its false positive rate is %.2f %%.\n", k.size, k.most, 100*k.window.FPR())
	if !k.check {
		return
	}
	// The heap shrinks by what the map has taken.
	n, both := len(k.seen), heap()
	k.seen = nil
	fmt.Fprintf(k.out, "The map took %d bytes for the last %d visitors.\n", both-heap(), n)
}

// heap returns the bytes of all objects on the heap that are in use.
func heap() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
