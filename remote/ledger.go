package remote

import (
	"sync"
	"time"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/remote/internal/object"
)

// The ledger is where writers and the shipper meet. It answers the two questions that a write may
// ask: how much does the bucket lack, and for how long.

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

	segments uint64 // the last sequence number in segments
	tables   uint64 // the tables and the logs of the newest step together have all writes up to here
	// missing is the highest number of a write that segments do not have and tables have to bring. As long as
	// tables is below it, nothing behind it can be restored, whatever segments have.
	missing    uint64
	lacking    time.Time     // when the oldest write behind missing was committed that waits for tables; zero: none does
	shippedSeq uint64        // all writes up to here can be restored
	changed    chan struct{} // closed when the shipper has got further; nil: nobody waits
}

// wrote takes in the position of the log behind a group that was committed, which others may have overtaken. It returns
// how many bytes of logs the bucket lacks now, and whether the group is the first one of a log after another.
func (l *ledger) wrote(pos shale.LogPosition) (lacking int64, rotated bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	// A later group was faster. Its position covers this one.
	if pos.Log < l.log || pos.Log == l.log && pos.Written <= l.written && pos.LastSeq <= l.lastSeq {
		return l.bytes, false
	}
	// What the earlier log got behind the last group that came by here is not counted. done sets
	// the sum right.
	from := l.written
	if pos.Log != l.log {
		from, rotated = object.LogHeader, l.log != 0
	}
	l.bytes += max(0, pos.Written-from)
	l.log, l.written, l.lastSeq = pos.Log, pos.Written, pos.LastSeq
	if l.oldest.IsZero() {
		l.oldest = time.Now()
	}
	return l.bytes, rotated
}

// letGo says that n bytes of logs never come to the bucket.
func (l *ledger) letGo(n int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.bytes = max(0, l.bytes-n)
}

// cut says that the shipper begins to look at the log, and sees all writes up to now. Writes that come from here on count as
// the next ones: what is on its way is no younger than cutting, and what waits behind it no younger than oldest.
func (l *ledger) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cutting.IsZero() {
		l.cutting = l.oldest
	}
	l.oldest = time.Time{}
}

// shipped says that n bytes more are in the bucket, with the writes up to seq, of which tables have to bring
// those up to missing.
func (l *ledger) shipped(n int64, seq, missing uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.bytes = max(0, l.bytes-n)
	l.segments, l.missing = max(l.segments, seq), max(l.missing, missing)
	if l.missing > l.tables && l.lacking.IsZero() {
		// The oldest write on its way is no younger than the one that waits for tables. So the lag
		// is at least as long as it is stated, and MaxLag holds.
		if l.lacking = l.cutting; l.lacking.IsZero() {
			l.lacking = time.Now()
		}
	}
	l.countLocked()
}

// published says that the tables and the logs of a step have all writes up to seq.
func (l *ledger) published(seq uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tables = max(l.tables, seq)
	l.countLocked()
}

// countLocked counts up to where the writes can be restored.
func (l *ledger) countLocked() {
	// Up to tables the newest step has everything. Segments count behind that only if no write
	// between the two is missing.
	all := l.tables
	if l.missing <= l.tables {
		all, l.lacking = max(all, l.segments), time.Time{}
	}
	l.shippedSeq = max(l.shippedSeq, all)
	l.wakeLocked()
}

// done says that all that the shipper has seen since cut is in the bucket. The sum of bytes is set right there: segments have
// the headers and seals of logs, which the gate does not count.
func (l *ledger) done(at object.Position) {
	l.mu.Lock()
	defer l.mu.Unlock()
	before, bytes := l.cutting, l.bytes
	l.cutting = time.Time{}
	if at.Log == l.log && at.Offset >= l.written { // sums of bytes may be off by headers and seals
		l.bytes = 0
	}
	if !before.IsZero() || bytes != l.bytes { // or whoever waits for tables would ask the shipper again and again
		l.wakeLocked()
	}
}

// wakeLocked wakes all who wait for a change, if any.
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
	// Writes that wait for tables were shipped before those that are on their way, and these were
	// committed before those that wait for the shipper. So the first of the three that is set is
	// the oldest.
	since := l.lacking
	for _, t := range []time.Time{l.cutting, l.oldest} {
		if since.IsZero() {
			since = t
		}
	}
	if !since.IsZero() && lag.Seq > lag.Shipped {
		lag.Time = time.Since(since)
	}
	return lag
}

// A Lag says how far the bucket is behind the local store.
type Lag struct {
	Bytes int64         // of logs that are not in the bucket, about
	Time  time.Duration // the age of the oldest write of this Store that is not in the bucket; 0: there is none
	Seq   uint64        // the number of the newest write
	// Shipped is the number up to which all writes are in the bucket, as segments or in tables. What was ingested, and
	// what was written after it, counts when the ingestion's tables are in a step.
	Shipped uint64
}
