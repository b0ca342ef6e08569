package cluster

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/internal/fields"
)

// What a transaction has observed goes into the log with its writes. When a member applies the command, it looks whether its
// state still has the same values under the same keys, and the same entries in the same ranges. If it has, the transaction
// would read at its place in the order what it did read, so it is serializable. Else it has lost, and nothing is written.
//
// The verdict is made of the state and the command, and of nothing else. So all members come to the same, also one that has just
// restored a snapshot, and no member has to remember earlier writes. A value that was changed and changed back is no conflict.
type observed struct {
	keys   []observedKey
	ranges []observedRange
}

// An observedKey is a key that was looked up.
type observedKey struct {
	key []byte
	sum sum // of its value
}

// An observedRange is a range that was scanned.
type observedRange struct {
	lower, upper []byte // upper is not in it
	size         uint64 // of its entries, as rangeSum counts
	sum          sum
}

// A sum is the SHA-256 of a value, or 0 for a key that was not there, or that of the entries of a range. Clients choose
// values, so it has to be a hash for which nobody can find two that collide.
type sum [sha256.Size]byte

// What one transaction may observe: all members look it up while they apply its command, and other commands wait.
const (
	maxObserved      = 1 << 16        // keys and ranges
	maxObservedBytes = maxCommandSize // of their keys and values

	// expiringFrame plus its time stands before an entry that expires, in rangeSum. No key is as long. Part of the log's format.
	expiringFrame = 1 << 48
)

// valueSum returns the sum of the value of a key, which expires at until, unless that is zero.
func valueSum(value []byte, found bool, until time.Time) sum {
	if !found {
		return sum{}
	}
	s := sha256.Sum256(value)
	if !until.IsZero() {
		binary.LittleEndian.PutUint64(s[:], binary.LittleEndian.Uint64(s[:])^uint64(until.UnixMilli()))
	}
	return s
}

// rangeSum returns the sum of the entries of a range, and the number of bytes that it is made of. When these are more than most, it
// stops, and the sum is of no use.
func rangeSum(r shale.Reader, lower, upper []byte, most uint64) (s sum, size uint64, err error) {
	h := sha256.New()
	var frame []byte
	for e, err := range r.Scan(shale.Range{Lower: lower, Upper: upper}) {
		if err != nil {
			return sum{}, 0, err
		}
		frame = frame[:0]
		if !e.ExpiresAt.IsZero() {
			frame = binary.AppendUvarint(frame, expiringFrame+uint64(e.ExpiresAt.UnixMilli()))
		}
		frame = binary.AppendUvarint(frame, uint64(len(e.Key)))
		frame = binary.AppendUvarint(append(frame, e.Key...), uint64(len(e.Value)))
		if size += uint64(len(frame) + len(e.Value)); size > most {
			break
		}
		_, _ = h.Write(frame) // a hash never fails
		_, _ = h.Write(e.Value)
	}
	h.Sum(s[:0])
	return s, size, nil
}

// observe looks at what a transaction has read, in the state that it has read. expiring says whether that may have values that
// expire, for which it looks twice.
func observe(f *shale.Footprint, expiring bool) (o observed, err error) {
	if n := len(f.Keys) + len(f.Ranges); n > maxObserved {
		return observed{}, fmt.Errorf("%w: %d keys and ranges, and %d is the limit", ErrReadTooMuch, n, maxObserved)
	}
	left := uint64(maxObservedBytes)
	take := func(n uint64) error {
		if n > left {
			return fmt.Errorf("%w: more than %d bytes", ErrReadTooMuch, maxObservedBytes)
		}
		left -= n
		return nil
	}
	for _, key := range f.Keys {
		if reserved(key) {
			continue // it is never there for a transaction
		}
		k := observedKey{key: key}
		n := len(key)
		until, err := expiryOf(f.Before, key, expiring)
		if err == nil {
			err = f.Before.ViewValue(key, func(value []byte) error {
				n += len(value)
				k.sum = valueSum(value, true, until)
				return nil
			})
		}
		if errors.Is(err, shale.ErrNotFound) {
			k.sum, err = valueSum(nil, false, until), nil
		}
		if err = errors.Join(err, take(uint64(n))); err != nil {
			return observed{}, err
		}
		o.keys = append(o.keys, k)
	}
	for _, rng := range f.Ranges {
		rng = clamp(rng)
		if bytes.Compare(rng.Lower, rng.Upper) >= 0 {
			continue // an iterator that was not moved, or above all keys
		}
		r := observedRange{lower: rng.Lower, upper: rng.Upper}
		if r.sum, r.size, err = rangeSum(f.Before, r.lower, r.upper, left); err != nil {
			return observed{}, err
		}
		if err := take(r.size + uint64(len(r.lower)+len(r.upper))); err != nil {
			return observed{}, err
		}
		o.ranges = append(o.ranges, r)
	}
	return o, nil
}

// expiryOf returns when the value of key expires, if values may expire.
func expiryOf(r shale.Reader, key []byte, expiring bool) (time.Time, error) {
	if !expiring {
		return time.Time{}, nil
	}
	return r.ExpiresAt(key)
}

// lost returns the number of the first key or range, from 1, that the store has otherwise now, or 0: keys count first. expiring
// is as in observe.
func (o *observed) lost(db *shale.DB, expiring bool) (int, error) {
	first := len(o.keys) + 1
	keys := make([][]byte, len(o.keys))
	for i, k := range o.keys {
		keys[i] = k.key
	}
	err := db.GetMany(keys, func(i int, value []byte, found bool) error {
		var until time.Time
		var err error
		if found {
			until, err = expiryOf(db, keys[i], expiring)
		}
		if valueSum(value, found, until) != o.keys[i].sum {
			first = min(first, i+1)
		}
		return err
	})
	if err != nil || first <= len(o.keys) {
		return first, err
	}
	for i, r := range o.ranges {
		if now, size, err := rangeSum(db, r.lower, r.upper, r.size); err != nil || size != r.size || now != r.sum {
			return first + i, err
		}
	}
	return 0, nil
}

// aboutLost returns a key that says where read number n of a command was, and a text for people. lost has returned n, on the leader.
func aboutLost(cmd []byte, n int) (key []byte, text string) {
	c, err := decodeCommand(cmd) // the transaction's own memory may be another's by now
	switch keys, ranges := c.observed.keys, c.observed.ranges; {
	case err == nil && n <= len(keys):
		return keys[n-1].key, fmt.Sprintf("%.60q", keys[n-1].key)
	case err == nil && n-len(keys) <= len(ranges):
		r := ranges[n-len(keys)-1]
		return r.lower, fmt.Sprintf("something from %.60q to %.60q", r.lower, r.upper)
	}
	return []byte{}, fmt.Sprintf("number %d", n) // of a newer leader
}

// appendTo appends what was observed, in the form that docs/FORMAT.md describes:
//
//	n varint, (key bytes, sum)*n | n varint, (lower bytes, upper bytes, size varint, sum)*n
func (o *observed) appendTo(dst []byte) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(o.keys)))
	for _, k := range o.keys {
		dst = append(appendBytes(dst, k.key), k.sum[:]...)
	}
	dst = binary.AppendUvarint(dst, uint64(len(o.ranges)))
	for _, r := range o.ranges {
		dst = binary.AppendUvarint(appendBytes(appendBytes(dst, r.lower), r.upper), r.size)
		dst = append(dst, r.sum[:]...)
	}
	return dst
}

func appendBytes(dst, b []byte) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(b))), b...)
}

// decodeObserved decodes what appendTo has made, and returns what follows. All aliases data.
func decodeObserved(data []byte) (o observed, rest []byte, err error) {
	d := fields.Decoder{Src: data}
	field := func() []byte { return d.Next(d.Uvarint()) }
	hash := func() (s sum) {
		copy(s[:], d.Next(uint64(len(s))))
		return s
	}
	for n := d.Uvarint(); n > 0 && d.Err == nil; n-- {
		k := observedKey{field(), hash()}
		if reserved(k.key) {
			d.Fail(errors.New("a reserved key was read"))
		}
		o.keys = append(o.keys, k)
	}
	for n := d.Uvarint(); n > 0 && d.Err == nil; n-- {
		r := observedRange{field(), field(), d.Uvarint(), hash()}
		if bytes.Compare(r.lower, r.upper) >= 0 || bytes.Compare(r.upper, reservedKey) > 0 {
			d.Fail(errors.New("a range that can't have been read"))
		}
		o.ranges = append(o.ranges, r)
	}
	return o, d.Src, d.Err
}
