package commit

import (
	"sync/atomic"
	"time"

	"github.com/shaledb/shale/internal/base"
)

// A Clock gives a store's time, in milliseconds since the beginning of 1970. It is the system's, but
// it never goes back while the store is open, and begins with the time that the manifest has: what a
// reader or a merge has taken for expired stays expired. All methods may be called concurrently.
type Clock struct {
	System func() time.Time
	latest atomic.Int64 // the greatest time that was given out
	used   atomic.Bool  // see Note
	// Held says that a compaction of what has expired waits for a snapshot to be closed.
	Held atomic.Bool
}

// Now returns the time, which is above 0.
func (c *Clock) Now() int64 { return c.Raise(c.System().UnixMilli()) }

// Raise makes the time ms at least, and returns it.
func (c *Clock) Raise(ms int64) int64 {
	for {
		latest := c.latest.Load()
		if ms <= latest {
			return max(latest, 1)
		}
		if c.latest.CompareAndSwap(latest, ms) {
			return ms
		}
	}
}

// Note notes, if expiring is true, that the store has values that expire. It comes before readers see
// the first of them, and stays. Until then those that need a time of their own do without one.
func (c *Clock) Note(expiring bool) {
	if expiring && !c.used.Load() {
		c.used.Store(true)
	}
}

// Begin returns the time of a reader that begins now, or 0 if it can't meet a value that expires.
// Requires: the reader has its sequence number.
func (c *Clock) Begin() int64 {
	if !c.used.Load() {
		return 0
	}
	return c.Now()
}

// Over reports whether a value that expires at ms is over for a reader whose time is asOf; 0: now.
func (c *Clock) Over(ms, asOf int64) bool {
	if asOf == 0 {
		asOf = c.Now()
	}
	return ms <= asOf
}

// After returns when something is over that lasts for ttl from now on, rounded up to a millisecond.
// Requires: ttl > 0.
func (c *Clock) After(ttl time.Duration) int64 {
	t := c.System()
	ms, part := t.UnixMilli(), time.Duration(t.Nanosecond())%time.Millisecond
	if latest := c.latest.Load(); latest > ms {
		ms, part = latest, 0
	}
	const most = time.Millisecond - 1
	ms += int64(ttl/time.Millisecond) + int64((ttl%time.Millisecond+part+most)/time.Millisecond)
	return base.ClampExpiry(ms)
}
