package shale

import (
	"iter"
	"sync/atomic"

	"github.com/shaledb/shale/internal/base"
)

// A Snapshot is the store as it was at one moment: a Reader that no later
// write reaches. Old versions that it needs are kept until Close, also through
// compactions. Its methods may be called concurrently.
type Snapshot struct {
	db     *DB
	seq    base.Seq
	closed atomic.Bool
}

// Snapshot returns the present state of the store. It must be closed.
func (db *DB) Snapshot() (*Snapshot, error) {
	db.mu.Lock()
	defer db.mu.Unlock()
	if db.closing {
		return nil, ErrClosed
	}
	s := &Snapshot{db: db, seq: base.Seq(db.visible.Load())}
	db.snapshots.add(s.seq)
	return s, nil
}

// Seq returns the number of the last write that the snapshot sees.
func (s *Snapshot) Seq() uint64 { return uint64(s.seq) }

// Close lets go of what the snapshot kept. A second Close returns ErrClosed.
func (s *Snapshot) Close() error {
	if s.closed.Swap(true) {
		return ErrClosed
	}
	s.db.mu.Lock()
	s.db.snapshots.remove(s.seq)
	s.db.mu.Unlock()
	if uint64(s.seq) < s.db.visible.Load() {
		wake(s.db.compactWake) // what was written since may be compacted now
	}
	return nil
}

func (s *Snapshot) lookup(key []byte) (lookup, error) {
	if s.closed.Load() {
		return lookup{}, ErrClosed
	}
	l := s.db.newLookup(key)
	l.seq, l.latest = s.seq, false
	return l, nil
}

// Get implements Reader.
func (s *Snapshot) Get(key []byte) ([]byte, error) {
	l, err := s.lookup(key)
	if err != nil {
		return nil, err
	}
	return s.db.copyValue(&l)
}

// AppendValue implements Reader.
func (s *Snapshot) AppendValue(dst, key []byte) ([]byte, error) {
	l, err := s.lookup(key)
	if err != nil {
		return dst, err
	}
	return s.db.appendValue(dst, &l)
}

// ViewValue implements Reader.
func (s *Snapshot) ViewValue(key []byte, fn func(value []byte) error) error {
	l, err := s.lookup(key)
	if err != nil {
		return err
	}
	return s.db.viewValue(&l, fn)
}

// Has implements Reader.
func (s *Snapshot) Has(key []byte) (bool, error) {
	l, err := s.lookup(key)
	if err != nil {
		return false, err
	}
	return s.db.has(&l)
}

// Scan implements Reader.
func (s *Snapshot) Scan(r Range) iter.Seq2[Entry, error] {
	return scan(r, s.NewIterator)
}

// NewIterator implements Reader.
func (s *Snapshot) NewIterator(r Range) *Iterator {
	if s.closed.Load() {
		return failedIterator(ErrClosed)
	}
	return s.db.newIterator(r, s.seq)
}
