package cluster

import (
	"iter"
	"time"

	"github.com/shaledb/shale"
)

// A stateReader reads a member's state, and hides what belongs to the group: no key from reservedKey
// up is there, whether it is looked up, iterated or sought. Each call reads the store that is
// current when it begins. An iterator stays with its store, also when a snapshot replaces that.
//
// It may be used by several goroutines. A store that is pinned is not closed, so each call pins the
// current one and lets it go at its end. If all is set, it is read instead: a transaction, whose store is pinned already.
type stateReader struct {
	state *state
	all   reader
}

// A reader is what *shale.DB and *shale.Txn have in common.
type reader interface {
	shale.Reader
	GetMany(keys [][]byte, fn func(i int, value []byte, found bool) error) error
}

var _ reader = stateReader{}

// reader returns a reader of the state.
func (s *state) reader() shale.Reader { return stateReader{state: s} }

// hold returns what is read, and the store to unpin, or nil.
func (r stateReader) hold() (reader, *stateStore) {
	if r.all != nil {
		return r.all, nil
	}
	st := r.state.hold()
	return st.db, st
}

// Get returns a copy of the value of key, which the caller owns, or [shale.ErrNotFound].
func (r stateReader) Get(key []byte) ([]byte, error) {
	if reserved(key) {
		return nil, shale.ErrNotFound
	}
	all, st := r.hold()
	defer st.unpin()
	return all.Get(key)
}

// AppendValue appends the value of key to dst and returns the longer slice, or dst as it was and
// [shale.ErrNotFound].
func (r stateReader) AppendValue(dst, key []byte) ([]byte, error) {
	if reserved(key) {
		return dst, shale.ErrNotFound
	}
	all, st := r.hold()
	defer st.unpin()
	return all.AppendValue(dst, key)
}

// ViewValue calls fn with the value of key, uncopied: it is valid until fn returns and must not be changed. It
// returns fn's error, or [shale.ErrNotFound] without a call.
func (r stateReader) ViewValue(key []byte, fn func(value []byte) error) error {
	if reserved(key) {
		return shale.ErrNotFound
	}
	all, st := r.hold()
	defer st.unpin()
	return all.ViewValue(key, fn)
}

// Has reports whether key is there, without reading its value.
func (r stateReader) Has(key []byte) (bool, error) {
	if reserved(key) {
		return false, nil
	}
	all, st := r.hold()
	defer st.unpin()
	return all.Has(key)
}

// ExpiresAt returns when the value of key expires, the zero time if never, or [shale.ErrNotFound].
func (r stateReader) ExpiresAt(key []byte) (time.Time, error) {
	if reserved(key) {
		return time.Time{}, shale.ErrNotFound
	}
	all, st := r.hold()
	defer st.unpin()
	return all.ExpiresAt(key)
}

// GetMany looks up many keys at one state, as [shale.DB.GetMany] does.
func (r stateReader) GetMany(keys [][]byte, fn func(i int, value []byte, found bool) error) error {
	all, st := r.hold()
	defer st.unpin()
	return all.GetMany(keys, func(i int, value []byte, found bool) error {
		if found && reserved(keys[i]) {
			value, found = nil, false
		}
		return fn(i, value, found)
	})
}

// Scan walks the entries of rng in order. An Entry is valid until the next step. An error ends the loop and is yielded
// once, with a zero Entry.
func (r stateReader) Scan(rng shale.Range) iter.Seq2[shale.Entry, error] {
	rng = clamp(rng)
	return func(yield func(shale.Entry, error) bool) {
		all, st := r.hold()
		defer st.unpin()
		all.Scan(rng)(yield)
	}
}

// NewIterator returns a cursor over the entries of rng, which must be closed.
func (r stateReader) NewIterator(rng shale.Range) *shale.Iterator {
	all, st := r.hold()
	defer st.unpin()
	return all.NewIterator(clamp(rng))
}

// clamp cuts a range off where the group's keys begin.
func clamp(r shale.Range) shale.Range {
	if r.Upper == nil || reserved(r.Upper) {
		r.Upper = reservedKey
	}
	return r
}
