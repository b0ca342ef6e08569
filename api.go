package shale

import (
	"bytes"
	"iter"
	"slices"
	"time"
)

// This file has what DB, Snapshot and Batch have in common: the interfaces Reader and Writer,
// Range and Entry.

// A Reader answers questions about one state of the store: [*DB] about the newest, [*Snapshot] about that of its creation,
// [*Txn] about that of its beginning with its own writes, [*Sub] about a part. Keys passed in are only read during the
// call. All methods may be called concurrently, except for those of a Txn.
type Reader interface {
	// Get returns the value of key as a new slice that the caller owns, or
	// ErrNotFound.
	Get(key []byte) ([]byte, error)

	// AppendValue appends the value of key to dst and returns the extended
	// slice. It allocates nothing when the value fits. On an error, such as
	// ErrNotFound, it returns dst as it was.
	AppendValue(dst, key []byte) ([]byte, error)

	// ViewValue calls fn with the value of key without copying it. The slice
	// is valid until fn returns and must not be changed. It returns fn's
	// error, or ErrNotFound without calling fn.
	ViewValue(key []byte, fn func(value []byte) error) error

	// Has reports whether key is there, without reading its value.
	Has(key []byte) (bool, error)

	// ExpiresAt returns when the value of key is gone, or ErrNotFound. Zero: never.
	ExpiresAt(key []byte) (time.Time, error)

	// Scan walks the entries of r in order. An Entry is valid until the next
	// step of the loop. An error ends the loop and is yielded once, with a
	// zero Entry. Leaving the loop early releases everything.
	Scan(r Range) iter.Seq2[Entry, error]

	// NewIterator returns a cursor over the entries of r. It must be closed.
	NewIterator(r Range) *Iterator
}

// A Writer takes changes: [*DB] applies each at once, [*Batch] and [*Txn] collect them. Arguments may be reused as soon as
// a call returns.
type Writer interface {
	// Put sets the value of key.
	Put(key, value []byte) error

	// PutTTL sets the value of key until ttl has passed, to the millisecond. From then on it is as
	// if the key had been deleted, but for readers that began before: a Snapshot, an Iterator and a
	// Txn have the time of their beginning. With a ttl of 0 or less it is deleted at once.
	PutTTL(key, value []byte, ttl time.Duration) error

	// Delete removes key. Deleting an absent key is no error.
	Delete(key []byte) error

	// DeleteRange removes the keys from lower to upper, which is exclusive; nil: there is no
	// bound. It takes the same time however many they are. If no key can lie between the bounds,
	// it does nothing.
	DeleteRange(lower, upper []byte) error
}

var (
	_ Reader = (*DB)(nil)
	_ Reader = (*Snapshot)(nil)
	_ Reader = (*Txn)(nil)
	_ Reader = (*Sub)(nil)
	_ Writer = (*DB)(nil)
	_ Writer = (*Batch)(nil)
	_ Writer = (*Txn)(nil)
	_ Writer = (*Sub)(nil)
)

// A Range selects the keys from Lower (inclusive) to Upper (exclusive). The
// zero value selects all. Its slices are copied by the calls that take it.
type Range struct {
	Lower, Upper []byte // nil: unbounded; an empty, non-nil Upper selects nothing
	Reverse      bool   // walk from the last key to the first
	KeysOnly     bool   // leave Entry.Value nil
	strip        uint32 // the length of a Sub's prefix: Lower begins with it, and iterators leave it out of keys
	Limit        int    // stop after this many entries; 0: no limit
}

// Prefix returns the range of the keys that start with p.
func Prefix[B ~string | ~[]byte](p B) Range {
	if len(p) == 0 {
		return Range{}
	}
	lower := []byte(p)
	return Range{Lower: slices.Clone(lower), Upper: prefixEnd(lower)}
}

// prefixEnd returns the least key above all keys that start with p, or nil if
// there is none, as for 0xff 0xff.
func prefixEnd(p []byte) []byte {
	for i := len(p) - 1; i >= 0; i-- {
		if p[i] != 0xff {
			end := slices.Clone(p[:i+1])
			end[i]++
			return end
		}
	}
	return nil
}

// Reversed returns r with its direction turned round.
func (r Range) Reversed() Range {
	r.Reverse = !r.Reverse
	return r
}

// clone returns r with bounds of its own.
func (r Range) clone() Range {
	r.Lower, r.Upper = bytes.Clone(r.Lower), bytes.Clone(r.Upper)
	return r
}

// empty reports whether the bounds alone show that r selects nothing.
func (r Range) empty() bool {
	return r.Upper != nil && bytes.Compare(r.Lower, r.Upper) >= 0
}

// An Entry is a key with its value. In a loop over Scan it is valid until the
// next step; Clone makes one that stays.
type Entry struct {
	Key, Value []byte    // not to be changed; Value is nil if the Range says KeysOnly
	ExpiresAt  time.Time // zero: never
}

// Clone returns a copy of e that the caller owns.
func (e Entry) Clone() Entry {
	return Entry{Key: cloneNonNil(e.Key), Value: bytes.Clone(e.Value), ExpiresAt: e.ExpiresAt}
}

// cloneNonNil copies b and keeps an empty key empty rather than nil.
func cloneNonNil(b []byte) []byte { return append([]byte{}, b...) }
