package commit

import (
	"slices"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/lockorder"
)

// Snapshots holds the sequence numbers of open snapshots.
type Snapshots struct {
	mu   lockorder.Mutex[lockorder.Snapshots]
	seqs []base.Seq // ascending; a number is in it once for each snapshot
}

// Take adds the number that is visible now, and returns it. It calls visible under
// the lock. A flush or compaction that has called List before writes only entries
// that were visible by then, so it keeps the newest version that the snapshot sees.
func (l *Snapshots) Take(visible func() base.Seq) base.Seq {
	l.mu.Lock()
	defer l.mu.Unlock()
	seq := visible()
	i, _ := slices.BinarySearch(l.seqs, seq)
	l.seqs = slices.Insert(l.seqs, i, seq)
	return seq
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

// Remove removes a number that Take has returned. If several snapshots have it, the others
// stay. It reports whether Oldest returns a higher number now.
func (l *Snapshots) Remove(seq base.Seq) (wasOldest bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	i, ok := slices.BinarySearch(l.seqs, seq)
	if !ok {
		return false
	}
	l.seqs = slices.Delete(l.seqs, i, i+1)
	return i == 0 && (len(l.seqs) == 0 || l.seqs[0] > seq)
}

// List returns the numbers at which flushes and compactions must keep the
// store readable, ascending and without repeats. The caller owns the slice.
func (l *Snapshots) List() []base.Seq {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Compact(slices.Clone(l.seqs))
}

// Oldest returns the lowest number, or base.MaxSeq if no snapshot is open.
func (l *Snapshots) Oldest() base.Seq {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.seqs) == 0 {
		return base.MaxSeq
	}
	return l.seqs[0]
}

// Len returns how many snapshots are open.
func (l *Snapshots) Len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.seqs)
}
