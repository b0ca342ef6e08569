package shale

import (
	"iter"
	"time"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/commit"
	"github.com/shaledb/shale/internal/memqueue"
)

// This file has Iterator and Scan, as programs see them.

// An Iterator is a cursor over the entries of a Range at one state of the
// store, that of its creation. It starts before the first key: Next moves to
// it, Prev stays. It is for one goroutine at a time and must be closed; it
// keeps the files that it reads from being deleted.
//
// A movement reports whether it ended on an entry. If not, Err distinguishes an end from a
// failure. Past the last entry, Prev moves back to it; before the first, Next moves to it.
// [Range.Reverse] and [Range.Limit] are for Scan: an Iterator ignores them.
//
// Once the store is closed, each movement fails, and Err is [ErrClosed] then.
type Iterator struct {
	// The cursor does all the work, and goes back to a pool with Close. The Iterator is what
	// remains for a caller that goes on using it.
	c   *cursor // nil: closed, or never open
	err error   // what Err returns if c is nil
}

// NewIterator returns a cursor over the entries of r, which must be closed.
func (db *DB) NewIterator(r Range) *Iterator {
	return db.newIterator(db.mems.Pin(), r, latest, nil)
}

// latest asks newIterator for the newest state.
var latest = commit.Held{Seq: base.MaxSeq}

// failedIterator returns an iterator that was never open: its movements fail with err.
func failedIterator(err error) *Iterator { return &Iterator{err: err} }

// newIterator returns an iterator over the entries of r as of at in v, whose pin it takes over. v
// is nil if the store is closed: then its movements fail with ErrClosed. tx is the transaction that reads, if there is one.
func (db *DB) newIterator(v *memqueue.View, r Range, at commit.Held, tx *inTxn) *Iterator {
	if v == nil {
		return failedIterator(ErrClosed)
	}
	return &Iterator{c: db.openCursor(v, r, at, tx)}
}

// open reports whether there is a cursor to move. If there is none, Err has the reason.
func (it *Iterator) open() bool {
	if it.c == nil && it.err == nil {
		it.err = ErrClosed
	}
	return it.c != nil
}

// First moves to the first entry.
func (it *Iterator) First() bool { return it.open() && it.c.first() }

// Last moves to the last entry.
func (it *Iterator) Last() bool { return it.open() && it.c.last() }

// SeekGE moves to the first entry whose key is key or greater.
func (it *Iterator) SeekGE(key []byte) bool { return it.open() && it.c.seekGE(key) }

// SeekLT moves to the last entry whose key is less than key.
func (it *Iterator) SeekLT(key []byte) bool { return it.open() && it.c.seekLT(key) }

// Next moves one entry forward, from before the first to the first.
func (it *Iterator) Next() bool { return it.open() && it.c.next() }

// Prev moves one entry back, from after the last to the last.
func (it *Iterator) Prev() bool { return it.open() && it.c.prev() }

// Valid reports whether the iterator stands on an entry.
func (it *Iterator) Valid() bool { return it.c != nil && it.c.position == onEntry && it.c.err == nil }

// Key returns the key of the entry, never nil. It is valid until the next
// movement or Close and must not be changed. Requires: it.Valid().
func (it *Iterator) Key() []byte {
	if it.c == nil || len(it.c.key) <= int(it.c.rng.strip) {
		return []byte{}
	}
	return it.c.key[it.c.rng.strip:]
}

// Value returns the value of the entry: nil if the range says KeysOnly, else
// never nil. It is valid until the next movement or Close and must not be
// changed. Requires: it.Valid().
func (it *Iterator) Value() []byte {
	switch {
	case it.c == nil:
		return []byte{}
	case it.c.rng.KeysOnly:
		return nil
	case it.c.value == nil:
		return []byte{}
	}
	return it.c.value
}

// ExpiresAt returns when the entry is over; zero: never. Requires: it.Valid().
func (it *Iterator) ExpiresAt() time.Time {
	if it.c == nil {
		return time.Time{}
	}
	return expiryTime(it.c.expiry)
}

// Err returns the error that ended the last movement, or nil.
func (it *Iterator) Err() error {
	if it.c != nil {
		return it.c.err
	}
	return it.err
}

// Close releases what the iterator holds. It may be called twice.
func (it *Iterator) Close() error {
	c := it.c
	if c == nil {
		return nil
	}
	it.c, it.err = nil, c.err
	return c.close()
}

// Scan walks the entries of r in order. An [Entry] is valid until the next step. An error ends the loop and is yielded
// once, with a zero Entry. Leaving the loop early releases everything.
func (db *DB) Scan(r Range) iter.Seq2[Entry, error] { return scan(r, db.NewIterator, true) }

// scan returns a walk over an iterator, which it opens when the loop begins and closes when the
// loop ends, also by a panic. So the state that a loop sees is that of its beginning. latest says
// that this is the newest state: if a file of it is gone, the walk begins with one that is newer.
func scan(r Range, open func(Range) *Iterator, latest bool) iter.Seq2[Entry, error] {
	r = r.clone()
	return func(yield func(Entry, error) bool) {
		it := open(r)
		defer func() { it.Close() }() // the error of a movement says more
		ok := it.begin(r.Reverse)
		if latest {
			for gone := ""; !ok && it.c != nil && it.c.db.lookAgain(it.c.view, it.Err(), &gone); {
				_ = it.Close() // likewise
				it = open(r)
				ok = it.begin(r.Reverse)
			}
		}
		step := it.Next
		if r.Reverse {
			step = it.Prev
		}
		for n := 0; ok; ok = step() {
			if !yield(Entry{Key: it.Key(), Value: it.Value(), ExpiresAt: it.ExpiresAt()}, nil) {
				return
			}
			if n++; n == r.Limit {
				return
			}
		}
		if err := it.Err(); err != nil {
			yield(Entry{}, err)
		}
	}
}

// begin moves to the entry with which a walk begins.
func (it *Iterator) begin(reverse bool) bool {
	if reverse {
		return it.Last()
	}
	return it.First()
}
