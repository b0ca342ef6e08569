package commit

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/lockorder"
)

// Snapshots holds the sequence numbers of open snapshots, and the clock by which they have their
// times.
type Snapshots struct {
	Clock Clock
	mu    lockorder.Mutex[lockorder.Snapshots]
	open  []Held // ascending
}

// A Held is an open snapshot: its number, and when it was taken.
type Held struct {
	Seq   base.Seq
	AsOf  int64         // the store's time for it, in milliseconds; 0: it sees nothing that expires
	taken time.Duration // after programStart, which costs half of what time.Now does
}

var programStart = time.Now()

func (h Held) compare(other Held) int {
	return cmp.Or(cmp.Compare(h.Seq, other.Seq), cmp.Compare(h.taken, other.taken))
}

// Take adds the number that is visible now, and the time, and returns them. It calls visible under
// the lock. A flush or compaction that has called List before writes only entries
// that were visible by then, so it keeps the newest version that the snapshot sees.
func (l *Snapshots) Take(visible func() (seq base.Seq, asOf int64)) Held {
	taken := time.Since(programStart)
	l.mu.Lock()
	defer l.mu.Unlock()
	h := Held{taken: taken}
	h.Seq, h.AsOf = visible()
	i, _ := slices.BinarySearchFunc(l.open, h, Held.compare)
	l.open = slices.Insert(l.open, i, h)
	return h
}

// Publish runs fn while nobody takes a snapshot or lists them. Ingest makes
// its tables and their sequence number visible this way. A snapshot with an
// older number is then in the list before a compaction that reads the tables
// asks for it, and a snapshot with this number sees all of the tables.
func (l *Snapshots) Publish(fn func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	fn()
}

// Remove removes what Take has returned. If several snapshots have the number, the others
// stay. It reports whether Oldest returns a higher number now.
func (l *Snapshots) Remove(h Held) (wasOldest bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	i, ok := slices.BinarySearchFunc(l.open, h, Held.compare)
	if !ok {
		return false
	}
	before := l.open[0].Seq
	l.open = slices.Delete(l.open, i, i+1)
	return h.Seq == before && (len(l.open) == 0 || l.open[0].Seq > before)
}

// List returns the numbers at which flushes and compactions must keep the store readable, ascending
// and without repeats, and for each of them the time up to which what expires is over for this
// snapshot and all newer ones. The caller owns the slices.
func (l *Snapshots) List() (seqs []base.Seq, times []int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, h := range l.open {
		if n := len(seqs); n > 0 && seqs[n-1] == h.Seq {
			times[n-1] = min(times[n-1], h.AsOf)
			continue
		}
		seqs, times = append(seqs, h.Seq), append(times, h.AsOf)
	}
	for i := len(times) - 2; i >= 0; i-- {
		times[i] = min(times[i], times[i+1])
	}
	return seqs, times
}

// OldestTime returns the time at which what expires is over for all snapshots that see it, or
// math.MaxInt64 if no snapshot sees anything that expires.
func (l *Snapshots) OldestTime() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	oldest := int64(math.MaxInt64)
	for _, h := range l.open {
		if h.AsOf != 0 {
			oldest = min(oldest, h.AsOf)
		}
	}
	return oldest
}

// Oldest returns the lowest number, or base.MaxSeq if no snapshot is open.
func (l *Snapshots) Oldest() base.Seq {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.open) == 0 {
		return base.MaxSeq
	}
	return l.open[0].Seq
}

// Open returns how many snapshots are open, and how long the oldest of them has been.
func (l *Snapshots) Open() (n int, oldest time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.open) == 0 {
		return 0, 0
	}
	return len(l.open), time.Since(programStart) - l.open[0].taken
}
