package base

import (
	"bytes"
	"math/bits"
)

// A PrefixRule says which keys have a prefix that filters know, and what it is.
// The zero rule: none has. At most one of Length and Count is set. Rules are
// compared with ==.
type PrefixRule struct {
	Length int // the first Length bytes, of keys that are as long

	// The bytes up to the Count-th Delimiter, with it, of keys that have as many.
	Count     int
	Delimiter byte
}

// The limits of a rule.
const (
	MaxPrefixLength = 1<<16 - 1
	MaxPrefixCount  = 255
)

// Valid tells whether r is a rule within the limits.
func (r PrefixRule) Valid() bool {
	if r.Count == 0 {
		return r.Length >= 0 && r.Length <= MaxPrefixLength && r.Delimiter == 0
	}
	return r.Length == 0 && r.Count > 0 && r.Count <= MaxPrefixCount
}

// Of returns the prefix of key, and whether it has one.
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

// OfRange returns the prefix that every key from lower (inclusive) to upper
// (exclusive; nil: no bound) has, and whether there is one.
//
// It is lower's, if the range ends before the first key that does not begin with
// it. What begins with the prefix of a key has the same prefix, by either kind
// of rule.
func (r PrefixRule) OfRange(lower, upper []byte) ([]byte, bool) {
	p, ok := r.Of(lower)
	if !ok || !within(upper, p) {
		return nil, false
	}
	return p, true
}

// within tells whether all keys from p up to upper begin with p: upper is not
// above p with its last byte that is not 0xff raised by one.
func within(upper, p []byte) bool {
	i := len(p) - 1
	for i >= 0 && p[i] == 0xff {
		i--
	}
	if i < 0 {
		return true // nothing lies above all that begin with p
	}
	if upper == nil {
		return false
	}
	if c := bytes.Compare(upper[:min(len(upper), i)], p[:i]); c != 0 || len(upper) <= i {
		return c <= 0
	}
	return upper[i] <= p[i] || upper[i] == p[i]+1 && len(upper) == i+1
}

// PrefixHash returns what a filter knows a prefix by, whose hash is h: not what
// it would know a key of the same bytes by. Part of the file format.
func PrefixHash(h uint64) uint64 {
	return bits.RotateLeft64(h*0xa0761d6478bd642f, 23)
}
