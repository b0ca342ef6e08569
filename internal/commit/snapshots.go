package commit

import (
	"cmp"
	"slices"
	"time"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/lockorder"
)

// Snapshots holds the sequence numbers of open snapshots.
type Snapshots struct {
	mu   lockorder.Mutex[lockorder.Snapshots]
	open []Held // ascending
}

// A Held is an open snapshot: its number, and when it was taken.
type Held struct {
	Seq   base.Seq
	taken time.Duration // after programStart, which costs half of what time.Now does
}

var programStart = time.Now()

func (h Held) compare(other Held) int {
	return cmp.Or(cmp.Compare(h.Seq, other.Seq), cmp.Compare(h.taken, other.taken))
}

// Take adds the number that is visible now, and returns it. It calls visible under
// the lock. A flush or compaction that has called List before writes only entries
// that were visible by then, so it keeps the newest version that the snapshot sees.
func (l *Snapshots) Take(visible func() base.Seq) Held {
	taken := time.Since(programStart)
	l.mu.Lock()
	defer l.mu.Unlock()
	h := Held{visible(), taken}
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

// List returns the numbers at which flushes and compactions must keep the
// store readable, ascending and without repeats. The caller owns the slice.
func (l *Snapshots) List() (seqs []base.Seq) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, h := range l.open {
		seqs = append(seqs, h.Seq)
	}
	return slices.Compact(seqs)
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
