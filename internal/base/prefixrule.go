package base

import (
	"bytes"
	"math/bits"
)

// A PrefixRule says which keys have a prefix that filters know, and
// which bytes it is. With the zero rule no key has one. At most one
// of Length and Count is not 0. Rules can be compared with ==.
type PrefixRule struct {
	Length int // the prefix is the first Length bytes; shorter keys have none

	// The prefix ends with the Count-th Delimiter. Keys with fewer have none.
	Count     int
	Delimiter byte
}

// The limits of a rule.
const (
	MaxPrefixLength = 1<<16 - 1
	MaxPrefixCount  = 255
)

// Valid reports whether r is a rule within the limits.
func (r PrefixRule) Valid() bool {
	if r.Count == 0 {
		return r.Length >= 0 && r.Length <= MaxPrefixLength && r.Delimiter == 0
	}
	return r.Length == 0 && r.Count > 0 && r.Count <= MaxPrefixCount
}

// Of returns the prefix of key, as a part of key, and whether it has one.
func (r PrefixRule) Of(key []byte) ([]byte, bool) {
	switch {
	case r.Count > 0:
		end := 0
		for range r.Count {
			i := bytes.IndexByte(key[end:], r.Delimiter)
			if i < 0 {
				return nil, false
			}
			end += i + 1
		}
		return key[:end], true
	case r.Length > 0 && len(key) >= r.Length:
		return key[:r.Length], true
	}
	return nil, false
}

// OfRange returns the prefix that all keys from lower (inclusive) to upper
// (exclusive) have, and whether there is one. A nil upper means no bound.
//
// It is the prefix of lower, if the range ends before the first key
// that does not begin with it. With both kinds of rule, every key
// that begins with the prefix of another key has the same prefix.
func (r PrefixRule) OfRange(lower, upper []byte) ([]byte, bool) {
	p, ok := r.Of(lower)
	if !ok || !within(upper, p) {
		return nil, false
	}
	return p, true
}

// within reports whether all keys from p up to upper begin with p. To see that,
// take p up to its last byte that is not 0xff, and add one to this byte. The
// result is the first key after all that begin with p. upper must not be above it.
func within(upper, p []byte) bool {
	i := len(p) - 1
	for i >= 0 && p[i] == 0xff {
		i--
	}
	if i < 0 {
		return true // no key lies above all those that begin with p
	}
	if upper == nil {
		return false
	}
	if c := bytes.Compare(upper[:min(len(upper), i)], p[:i]); c != 0 || len(upper) <= i {
		return c <= 0
	}
	return upper[i] <= p[i] || upper[i] == p[i]+1 && len(upper) == i+1
}

// PrefixHash returns the hash under which a filter stores a prefix. h is the
// hash of the prefix's bytes. The result differs from h, so that a prefix is
// not taken for a key of the same bytes. It is part of the file format.
func PrefixHash(h uint64) uint64 {
	return bits.RotateLeft64(h*0xa0761d6478bd642f, 23)
}
