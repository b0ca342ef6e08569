package harness

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/commit"
)

// This file has time, by which values expire. It stands still but where a step has it jump, so that what a store
// must show is known to the millisecond.

// Epoch is the time at which a life begins. A Model whose time nobody has set has it too.
var Epoch = time.UnixMilli(1_800_000_000_000)

// Of the values that expire, some are over from the beginning, and others for nobody who runs a test. So what a store
// holds that has the system's clock does not depend on it.
var (
	longAgo = time.UnixMilli(1_000_000_000_000)
	farAway = time.UnixMilli(9_000_000_000_000)
)

// A clock is a system's clock that stands still.
type clock struct{ ms atomic.Int64 }

func (c *clock) now() time.Time { return time.UnixMilli(c.ms.Load()) }

// Standing has a store of o take t for the time.
func Standing(o *shale.Options, t time.Time) { setClock(o, func() time.Time { return t }) }

// setClock has a store of o take its time from now: as its owner's, if it has one.
func setClock(o *shale.Options, now func() time.Time) {
	*KnobsOf(o).Now = now
	if o.Shipping.Clock != nil {
		o.Shipping.Clock = now
	}
}

// timeOf returns the time of an open store, in milliseconds.
func timeOf(db *shale.DB) int64 { return hidden[commit.Clock](db, "snapshots", "Clock").Now() }

// overAt returns when a value is over that is put at ms for ttl.
func overAt(ms int64, ttl time.Duration) time.Time {
	whole := int64(ttl / time.Millisecond)
	if ttl%time.Millisecond > 0 {
		whole++
	}
	return time.UnixMilli(base.ClampExpiry(ms + whole))
}

// ttls are those that no clock of a test ends, but for those that are over at once.
var ttls = []time.Duration{0, -1, -time.Hour, 1_000_000 * time.Hour, 1_000_000*time.Hour + 1, 1<<63 - 1}

// jumps are those of the system's clock.
var jumps = []time.Duration{time.Hour, -time.Hour, time.Hour, -time.Hour, 3 * time.Hour, -2 * time.Hour, 10 * time.Minute, time.Millisecond, 24 * time.Hour}

// TTL returns a time to live. Where the clock jumps, jumps may end it.
func (s *Source) TTL() time.Duration {
	if !s.Timed || s.IntN(4) == 0 {
		return ttls[s.IntN(len(ttls))]
	}
	return []time.Duration{1, time.Millisecond, time.Minute, time.Hour, time.Hour, 2 * time.Hour, 25 * time.Hour}[s.IntN(7)]
}

// expiry returns when a value of a batch is over; zero: never.
func (s *Source) expiry() time.Time {
	switch n := s.IntN(12); {
	case n == 0:
		return longAgo
	case n == 1:
		return farAway
	case n == 2 && s.Timed:
		return Epoch.Add(s.passed + time.Duration(s.IntN(5)-2)*time.Hour + time.Duration(s.IntN(3))*time.Minute)
	}
	return time.Time{}
}

// drawClock makes the system's clock jump.
func drawClock(s *Source) Step {
	d := jumps[s.IntN(len(jumps))]
	s.passed += d
	return Step{Name: "clock", Args: fmt.Sprint(d), Life: func(l *Life) error { return l.Jump(d) }}
}

// Jump makes the system's clock jump.
func (l *Life) Jump(d time.Duration) error {
	l.clock.ms.Add(d.Milliseconds())
	if l.DB == nil {
		return nil
	}
	l.setTime(max(l.Model.clock(), l.clock.ms.Load()))
	if got := timeOf(l.DB); got != l.Model.clock() {
		return fmt.Errorf("the store's time is %d, want %d: it goes with the system's, but not back", got, l.Model.clock())
	}
	return nil
}

// setTime makes ms the time of the store.
func (l *Life) setTime(ms int64) {
	l.Model.time = ms
	l.shown.ms.Store(ms)
}

// begun takes over the time of a store that was opened. It is the system's, or a later one at which a merge has dropped something,
// which nobody but the store knows.
func (l *Life) begun() error {
	system, got := l.clock.ms.Load(), timeOf(l.DB)
	if got < system || got > max(system, l.Model.clock()) {
		return fmt.Errorf("the store begins at %d, the system's clock says %d, and the store's time was %d", got, system, l.Model.clock())
	}
	l.setTime(got)
	return nil
}

// clock returns the time of the store.
func (m *Model) clock() int64 {
	if m.time == 0 {
		return Epoch.UnixMilli()
	}
	return m.time
}

// noEarlier says that the clock of a restart must not show an earlier time: what is over now is not known any more.
func (m *Model) noEarlier() {
	m.floor = max(m.floor, m.clock())
	m.publish()
}
