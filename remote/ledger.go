package remote

import (
	"sync"
	"time"

	"github.com/shaledb/shale"
)

// A ledger counts what the log has and the bucket lacks. The leader of the commit queue adds to it in
// the gate, and the shipper takes away. Its lock is held for a few instructions, so it holds up
// no writer.
type ledger struct {
	mu sync.Mutex // protects the following fields

	log     uint64 // the log of the last group, and where that group ends
	written int64
	lastSeq uint64

	bytes int64 // of logs that are not in the bucket; the headers and seals of logs may be missing in it
	// oldest is when the oldest write was committed that no segment has. cutting is the same for
	// writes that are on their way. Zero: there are none.
	oldest, cutting time.Time

	shippedSeq uint64
	changed    chan struct{} // closed when the shipper has got further; nil: nobody waits
}

// wrote takes in a group that was committed.
func (l *ledger) wrote(pos shale.LogPosition) {
	l.mu.Lock()
	defer l.mu.Unlock()
	from := l.written
	if pos.Log != l.log {
		from = logHeader
	}
	l.bytes += max(0, pos.Written-from)
	l.log, l.written, l.lastSeq = pos.Log, pos.Written, pos.LastSeq
	if l.oldest.IsZero() {
		l.oldest = time.Now()
	}
}

// cut says that the shipper begins to look at the log: all writes up to now are in what it sees.
func (l *ledger) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cutting.IsZero() {
		l.cutting = l.oldest
	}
	l.oldest = time.Time{}
}

// shipped says that n bytes more are in the bucket, with the writes up to seq.
func (l *ledger) shipped(n int64, seq uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.bytes = max(0, l.bytes-n)
	l.shippedSeq = max(l.shippedSeq, seq)
	l.wakeLocked()
}

// done says that all that the shipper has seen since cut is in the bucket.
func (l *ledger) done(at place) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cutting = time.Time{}
	if at.log == l.log && at.off >= l.written { // sums of bytes may be off by headers and seals
		l.bytes = 0
	}
	l.wakeLocked()
}

func (l *ledger) wakeLocked() {
	if l.changed != nil {
		close(l.changed)
		l.changed = nil
	}
}

// awaited returns a channel that is closed at the next change by the shipper.
func (l *ledger) awaited() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.changed == nil {
		l.changed = make(chan struct{})
	}
	return l.changed
}

// lag returns how far the bucket is behind.
func (l *ledger) lag() Lag {
	l.mu.Lock()
	defer l.mu.Unlock()
	lag := Lag{Bytes: l.bytes, Seq: l.lastSeq, Shipped: l.shippedSeq}
	since := l.cutting
	if since.IsZero() {
		since = l.oldest
	}
	if !since.IsZero() && lag.Seq > lag.Shipped {
		lag.Time = time.Since(since)
	}
	return lag
}

// A Lag says how far the bucket is behind the local store.
type Lag struct {
	Bytes int64         // of logs that are not in the bucket, about
	Time  time.Duration // the age of the oldest write that is not in the bucket; 0: there is none
	Seq   uint64        // the number of the newest write
	// Shipped is the number up to which all writes are in the bucket, as segments or in tables.
	Shipped uint64
}
