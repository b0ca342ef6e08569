package shale

import (
	"iter"
	"sync/atomic"
	"time"

	"github.com/shaledb/shale/compaction"
	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/commit"
	"github.com/shaledb/shale/internal/memqueue"
)

// This file has Snapshot.

// A Snapshot is the store as it was at one moment: a Reader that no later write reaches. Old
// versions that it needs are kept until Close, also through compactions. Its methods may be
// called concurrently, also at the same time as Close: then each does its work or returns
// [ErrClosed].
type Snapshot struct {
	db *DB
	// held has the number, which is all that a snapshot is. It stands in commit.Snapshots until Close:
	// flushes and compactions ask for the numbers in this list, and keep the versions that are seen at
	// them. A snapshot holds no view and no file. Each read takes the current view and looks for the
	// newest version up to the number.
	held   commit.Held
	closed atomic.Bool
	// view is what a snapshot of a read-only handle reads, and has pinned. The writer of the
	// directory does not know the numbers of snapshots here, so later views may lack versions that
	// this one needs. A transaction that can't write has pinned one too: see pinSnapshot. nil: there is
	// none.
	view *memqueue.View
}

// Snapshot returns the present state of the store. It must be closed.
func (db *DB) Snapshot() (*Snapshot, error) {
	s := new(Snapshot)
	if err := db.openSnapshot(s); err != nil {
		return nil, err
	}
	return s, nil
}

// openSnapshot makes s, which is empty, the present state of the store.
func (db *DB) openSnapshot(s *Snapshot) error {
	if db.life.Closing() {
		return ErrClosed
	}
	s.db = db
	s.held = db.snapshots.Take(func() (base.Seq, int64) {
		if db.opts.ReadOnly {
			s.view = db.mems.Pin() // Advance publishes view and number in one step for us
		}
		seq := db.commits.Visible()
		return seq, db.snapshots.Clock.Begin()
	})
	if db.opts.ReadOnly && s.view == nil {
		db.snapshots.Remove(s.held)
		return ErrClosed
	}
	return nil
}

// pinSnapshot makes s, which is empty, the present state of the store, as an iterator does it: it pins a view, and stands in
// no list. That takes no lock. Requires: the store is open for writing.
func (db *DB) pinSnapshot(s *Snapshot) error {
	s.db = db
	for {
		if s.view = db.mems.Pin(); s.view == nil {
			return ErrClosed
		}
		// The number comes after the view: see find. If another view has come meanwhile, the number may count writes that
		// only that one has.
		s.held.Seq = db.commits.Visible()
		if db.mems.View() == s.view {
			s.held.AsOf = db.snapshots.Clock.Begin()
			return nil
		}
		db.mems.Unpin(s.view)
	}
}

// acquireAll is memqueue.Queue.Pin for a view that has all that the snapshot sees. It may lack that if
// the snapshot is closed meanwhile.
func (s *Snapshot) acquireAll() *memqueue.View {
	if s.view != nil && s.view.TryPin() {
		return s.view
	}
	return s.db.mems.Pin()
}

// Seq returns the number of the last write that the snapshot sees.
func (s *Snapshot) Seq() uint64 { return uint64(s.held.Seq) }

// Close gives up the versions that only this snapshot kept. A second Close returns [ErrClosed].
func (s *Snapshot) Close() error {
	if s.closed.Swap(true) {
		return ErrClosed
	}
	listed := s.view == nil || s.db.opts.ReadOnly // else see pinSnapshot
	wasOldest := listed && s.db.snapshots.Remove(s.held)
	if s.view != nil {
		s.db.mems.Unpin(s.view)
	}
	// Each GetMany comes here, so a pick must be rare.
	if v := s.db.mems.View(); wasOldest && v != nil && (compaction.AwaitsSnapshots(v.Meta) || s.db.snapshots.Clock.Held.Load()) {
		s.db.scheduler.Nudge()
	}
	return nil
}

// lookup returns a lookup of key at the number of the snapshot.
func (s *Snapshot) lookup(key []byte) lookup {
	l := s.db.newLookup(key)
	l.seq, l.asOf, l.latest, l.at = s.held.Seq, s.held.AsOf, false, s.view
	return l
}

// Reads look at closed after they have what they need. Until Close the snapshot keeps its
// versions; what is read after Close may lack them. A look before the read would not notice a
// Close between the look and the read, and the read could give a wrong answer.

// Get returns a copy of the value that key had, which the caller owns, or [ErrNotFound].
func (s *Snapshot) Get(key []byte) ([]byte, error) {
	l := s.lookup(key)
	value, err := s.db.copyValue(&l)
	if s.closed.Load() {
		return nil, ErrClosed
	}
	return value, err
}

// AppendValue appends the value that key had to dst and returns the longer slice, or dst as it was and [ErrNotFound].
func (s *Snapshot) AppendValue(dst, key []byte) ([]byte, error) {
	l := s.lookup(key)
	value, err := s.db.appendValue(dst, &l)
	if s.closed.Load() {
		return dst, ErrClosed
	}
	return value, err
}

// ViewValue calls fn with the value that key had, uncopied: it is valid until fn returns and must not be changed. It
// returns fn's error, or [ErrNotFound] without a call.
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

// Has reports whether key was there, without reading its value.
func (s *Snapshot) Has(key []byte) (bool, error) {
	l := s.lookup(key)
	found, err := s.db.has(&l)
	if s.closed.Load() {
		return false, ErrClosed
	}
	return found, err
}

// ExpiresAt returns when the value that key had expires, the zero time if never, or [ErrNotFound].
func (s *Snapshot) ExpiresAt(key []byte) (time.Time, error) {
	l := s.lookup(key)
	at, err := s.db.expiresAt(&l)
	if s.closed.Load() {
		return time.Time{}, ErrClosed
	}
	return at, err
}

// Scan walks the entries of r as they were, in order. An [Entry] is valid until the next step. An error ends the loop
// and is yielded once, with a zero Entry. Leaving the loop early releases everything.
func (s *Snapshot) Scan(r Range) iter.Seq2[Entry, error] {
	return scan(r, s.NewIterator, false)
}

// NewIterator returns a cursor over the entries of r as they were, which must be closed. It keeps what it needs, also
// when the snapshot is closed.
func (s *Snapshot) NewIterator(r Range) *Iterator {
	it := s.db.newIterator(s.acquireAll(), r, s.held, nil)
	// The iterator has a view by now. If the snapshot is still open after that, no version that
	// it sees was dropped from this view.
	if s.closed.Load() {
		_ = it.Close() // it has not moved
		return failedIterator(ErrClosed)
	}
	return it
}
