package shale

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// RecentEvents returns the events that OnEvent was called with, in order of their time.
func TestRecentEvents(t *testing.T) {
	var mu sync.Mutex
	var told []string
	show := func(e Event) string { return fmt.Sprint(e.Time.UnixNano(), e.Kind, e.BytesOut, e.Tables, e.Duration) }
	opts := small()
	opts.OnEvent = func(e Event) {
		mu.Lock()
		defer mu.Unlock()
		told = append(told, show(e))
	}
	db := openTest(t, opts)
	fill(t, db, 3000, 0)
	mustFlush(t, db)
	waitIdle(t, db)
	closeTest(t, db)
	var got []string
	kinds := map[EventKind]int{}
	last := time.Time{}
	for _, e := range db.Inspect().RecentEvents() {
		if e.Time.Before(last) {
			t.Errorf("an event of %v comes after one of %v", e.Time, last)
		}
		last = e.Time
		kinds[e.Kind]++
		got = append(got, show(e))
	}
	slices.Sort(told)
	slices.Sort(got)
	if kinds[EventFlush] == 0 || kinds[EventCompaction] == 0 || len(told) < recentEvents && !slices.Equal(got, told) {
		t.Errorf("%d events are remembered, %d were told: %v", len(got), len(told), kinds)
	}
}

// The log of recent events keeps the last events of each kind, and a part of their tables. It
// does not grow beyond that.
func TestRecentEvents_AreBounded(t *testing.T) {
	var l recentLog
	many := make([]uint64, 10*recentTables)
	const n = 10*recentEvents + 101
	for i := range n {
		at := time.Unix(int64(i/3), 0) // a clock may be coarse
		if i%5 == 0 {
			l.add(Event{Kind: EventCompaction, Time: at, Level: i, Tables: many})
		}
		l.add(Event{Kind: EventStallBegin, Time: at, Level: i})
	}
	events := l.list()
	counts, last := map[EventKind]int{}, map[EventKind]int{}
	for _, e := range events {
		counts[e.Kind]++
		if e.Level < last[e.Kind] {
			t.Errorf("%v %d comes after %d", e.Kind, e.Level, last[e.Kind])
		}
		last[e.Kind] = e.Level
		if len(e.Tables) > recentTables || cap(e.Tables) > 2*recentTables {
			t.Fatalf("%d tables are kept", len(e.Tables))
		}
		if e.Kind == EventStallBegin && e.Level < n-recentEvents {
			t.Errorf("stall %d of %d is still there", e.Level, n)
		}
	}
	if counts[EventCompaction] != recentEvents || counts[EventStallBegin] != recentEvents {
		t.Errorf("kept: %v", counts)
	}
	if !slices.IsSortedFunc(events, func(a, b Event) int { return a.Time.Compare(b.Time) }) {
		t.Error("the events are not in order")
	}
}

// A panicHandler is a slog.Handler that panics or exits, as a user's may.
type panicHandler struct {
	slog.Handler
	fail func()
}

func (h panicHandler) Enabled(context.Context, slog.Level) bool { return true }

func (h panicHandler) Handle(context.Context, slog.Record) error {
	h.fail()
	return nil
}

// OnEvent or Logger panics, or calls runtime.Goexit, in every event: of commits, flushes and
// compactions. The store goes on, and reports the failure once to the other of the two.
func TestEmit_ListenersThatFail(t *testing.T) {
	fail := map[string]func(){"panicked: by intention": func() { panic("by intention") }, "called runtime.Goexit": runtime.Goexit}
	for want, how := range fail {
		for _, who := range []string{"OnEvent", "Logger"} {
			var reports atomic.Int32
			heard := func(message string) {
				if strings.Contains(message, who+" "+want) {
					reports.Add(1)
				}
			}
			o := small()
			o.MemtableSize = 4 << 10
			if who == "OnEvent" {
				o.OnEvent = func(Event) { how() }
				o.Logger = slog.New(slog.NewTextHandler(writerFunc(func(p []byte) (int, error) { heard(string(p)); return len(p), nil }), nil))
			} else {
				o.Logger = slog.New(panicHandler{fail: how})
				o.OnEvent = func(e Event) {
					if e.Err != nil {
						heard(e.Err.Error())
					}
				}
			}
			db := openTest(t, o)
			for i := range 300 {
				mustPut(t, db, fmt.Sprint("key", i), strings.Repeat("v", 100))
			}
			if err := db.Flush(context.Background()); err != nil {
				t.Error(err)
			}
			if err := db.Compact(context.Background(), Range{}); err != nil {
				t.Error(err)
			}
			wantGet(t, db, "key7", strings.Repeat("v", 100), true)
			closeTest(t, db)
			if n := reports.Load(); n != 1 {
				t.Errorf("%s %s: reported %d times, want once", who, want, n)
			}
		}
	}
}
