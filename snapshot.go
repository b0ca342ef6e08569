package shale

import (
	"iter"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/shaledb/shale/internal/base"
)

// A Snapshot is the store as it was at one moment: a Reader that no later
// write reaches. Old versions that it needs are kept until Close, also through
// compactions. Its methods may be called concurrently, also beside Close: then
// each does its work or returns ErrClosed.
type Snapshot struct {
	db     *DB
	seq    base.Seq
	closed atomic.Bool
}

// Snapshot returns the present state of the store. It must be closed.
func (db *DB) Snapshot() (*Snapshot, error) {
	if db.closing() {
		return nil, ErrClosed
	}
	return &Snapshot{db: db, seq: db.snapshots.take(db.commits.Visible)}, nil
}

// Seq returns the number of the last write that the snapshot sees.
func (s *Snapshot) Seq() uint64 { return uint64(s.seq) }

// Close lets go of what the snapshot kept. A second Close returns ErrClosed.
func (s *Snapshot) Close() error {
	if s.closed.Swap(true) {
		return ErrClosed
	}
	s.db.snapshots.remove(s.seq)
	if s.seq < s.db.commits.Visible() {
		s.db.scheduler.Nudge() // what was written since may be compacted now
	}
	return nil
}

func (s *Snapshot) lookup(key []byte) lookup {
	l := s.db.newLookup(key)
	l.seq, l.latest = s.seq, false
	return l
}

// Reads look at closed when they have what they need, and not before: until
// Close the snapshot keeps its versions, and what was read later may lack them.

// Get implements Reader.
func (s *Snapshot) Get(key []byte) ([]byte, error) {
	l := s.lookup(key)
	value, err := s.db.copyValue(&l)
	if s.closed.Load() {
		return nil, ErrClosed
	}
	return value, err
}

// AppendValue implements Reader.
func (s *Snapshot) AppendValue(dst, key []byte) ([]byte, error) {
	l := s.lookup(key)
	value, err := s.db.appendValue(dst, &l)
	if s.closed.Load() {
		return dst, ErrClosed
	}
	return value, err
}

// ViewValue implements Reader.
func (s *Snapshot) ViewValue(key []byte, fn func(value []byte) error) error {
	l := s.lookup(key)
	found, err := s.db.find(&l)
	if found {
		defer l.release() // also when fn panics
	}
	switch {
	case s.closed.Load():
		return ErrClosed
	case err != nil:
		return err
	case !found:
		return ErrNotFound
	}
	return fn(l.value)
}

// Has implements Reader.
func (s *Snapshot) Has(key []byte) (bool, error) {
	l := s.lookup(key)
	found, err := s.db.has(&l)
	if s.closed.Load() {
		return false, ErrClosed
	}
	return found, err
}

// Scan implements Reader.
func (s *Snapshot) Scan(r Range) iter.Seq2[Entry, error] {
	return scan(r, s.NewIterator)
}

// NewIterator implements Reader. The iterator keeps what it needs by itself, also
// when the snapshot is closed.
func (s *Snapshot) NewIterator(r Range) *Iterator {
	it := s.db.newIterator(r, s.seq)
	if s.closed.Load() {
		_ = it.Close() // it has not moved
		return failedIterator(ErrClosed)
	}
	return it
}

// A snapshotList holds the sequence numbers of open snapshots.
type snapshotList struct {
	mu   sync.Mutex
	seqs []base.Seq // ascending, with repeats
}

// take adds the number that is visible now, and returns it. It reads the number
// under the lock: a flush or a compaction that has called list before writes only
// what was visible by then, so it keeps the newest version that the snapshot sees.
func (l *snapshotList) take(visible func() base.Seq) base.Seq {
	l.mu.Lock()
	defer l.mu.Unlock()
	seq := visible()
	i, _ := slices.BinarySearch(l.seqs, seq)
	l.seqs = slices.Insert(l.seqs, i, seq)
	return seq
}

// publish runs fn while nobody takes a snapshot or lists them. With it Ingest makes its
// tables and their sequence number visible: a snapshot with an older number is in the
// list before a compaction that reads the tables asks for it, and one with this
// number sees all of them.
func (l *snapshotList) publish(fn func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	fn()
}

func (l *snapshotList) remove(seq base.Seq) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if i, ok := slices.BinarySearch(l.seqs, seq); ok {
		l.seqs = slices.Delete(l.seqs, i, i+1)
	}
}

// list returns the numbers that flushes and compactions have to keep readable,
// ascending and without repeats. The caller owns the slice.
func (l *snapshotList) list() []base.Seq {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Compact(slices.Clone(l.seqs))
}

// oldest returns the lowest of the numbers, or base.MaxSeq if there is none.
func (l *snapshotList) oldest() base.Seq {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.seqs) == 0 {
		return base.MaxSeq
	}
	return l.seqs[0]
}

func (l *snapshotList) len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.seqs)
}
