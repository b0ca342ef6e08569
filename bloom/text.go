package bloom

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// The text of a filter is its serialized form in base64 (RFC 4648, with padding). It
// is what encoding/json and encoding/xml write of a filter, and encoders of other
// formats that know encoding.TextMarshaler. MarshalText has value receivers: an
// encoder that is given a filter by value finds no others, and would write an empty
// object without an error.

// textOf returns b as text, or err.
func textOf(b []byte, err error) ([]byte, error) {
	if err != nil {
		return nil, err
	}
	return base64.StdEncoding.AppendEncode(nil, b), nil
}

// unmarshalText gives the bytes that text stands for to unmarshal.
func unmarshalText(text []byte, unmarshal func(b []byte) error) error {
	b, err := base64.StdEncoding.AppendDecode(nil, text)
	if err != nil {
		return damage("%v", err)
	}
	return unmarshal(b)
}

// errNoForm says that a type has no serialized form, so that no encoder writes an
// empty object in its place, or reads one.
func errNoForm(what, instead string) error {
	return fmt.Errorf("bloom: a %s has no serialized form: %w: %s", what, errors.ErrUnsupported, instead)
}

// MarshalText returns the bytes of AppendBinary in base64.
func (f Filter) MarshalText() ([]byte, error) { return textOf(f.MarshalBinary()) }

// UnmarshalText makes f the filter that MarshalText made text of: see
// UnmarshalBinary.
func (f *Filter) UnmarshalText(text []byte) error { return unmarshalText(text, f.UnmarshalBinary) }

// MarshalText returns the bytes of AppendBinary in base64.
func (s Scalable) MarshalText() ([]byte, error) { return textOf(s.MarshalBinary()) }

// UnmarshalText makes s the filter that MarshalText made text of: see
// UnmarshalBinary.
func (s *Scalable) UnmarshalText(text []byte) error { return unmarshalText(text, s.UnmarshalBinary) }

// MarshalText returns the bytes of AppendBinary in base64.
func (f Counting) MarshalText() ([]byte, error) { return textOf(f.MarshalBinary()) }

// UnmarshalText makes f the filter that MarshalText made text of: see
// UnmarshalBinary.
func (f *Counting) UnmarshalText(text []byte) error { return unmarshalText(text, f.UnmarshalBinary) }

// MarshalText returns the bytes of AppendBinary in base64.
func (f Cuckoo) MarshalText() ([]byte, error) { return textOf(f.MarshalBinary()) }

// UnmarshalText makes f the filter that MarshalText made text of: see
// UnmarshalBinary.
func (f *Cuckoo) UnmarshalText(text []byte) error { return unmarshalText(text, f.UnmarshalBinary) }

// MarshalText returns the bytes of AppendBinary in base64.
func (s Bitset) MarshalText() ([]byte, error) { return textOf(s.MarshalBinary()) }

// UnmarshalText makes s the set that MarshalText made text of: see UnmarshalBinary.
func (s *Bitset) UnmarshalText(text []byte) error { return unmarshalText(text, s.UnmarshalBinary) }

// MarshalText returns the bytes of AppendBinary in base64.
func (f Blocked) MarshalText() ([]byte, error) { return textOf(f.MarshalBinary()) }

// UnmarshalText makes f the filter that MarshalText made text of: see
// UnmarshalBinary.
func (f *Blocked) UnmarshalText(text []byte) error { return unmarshalText(text, f.UnmarshalBinary) }

// MarshalText returns the bytes of AppendBinary in base64.
func (f Fuse) MarshalText() ([]byte, error) { return textOf(f.MarshalBinary()) }

// UnmarshalText makes f the filter that MarshalText made text of: see
// UnmarshalBinary.
func (f *Fuse) UnmarshalText(text []byte) error { return unmarshalText(text, f.UnmarshalBinary) }

// MarshalText returns the bytes of AppendBinary in base64. It works on a copy of s,
// which does not keep s reachable: a caller that frees the bytes of OpenStatic when s
// cannot be reached any more calls runtime.KeepAlive(s) after it.
func (s Static) MarshalText() ([]byte, error) { return textOf(s.MarshalBinary()) }

// UnmarshalText makes s the filter that MarshalText made text of: see
// UnmarshalBinary.
func (s *Static) UnmarshalText(text []byte) error { return unmarshalText(text, s.UnmarshalBinary) }

const (
	writeBlocked = "a Blocked has one"
	writeBelow   = "write the filter below"
)

// MarshalText is an error, errors.ErrUnsupported: an AtomicBlocked has no serialized
// form.
func (f AtomicBlocked) MarshalText() ([]byte, error) {
	return nil, errNoForm("AtomicBlocked", writeBlocked)
}

// UnmarshalText is an error: see MarshalText.
func (f *AtomicBlocked) UnmarshalText([]byte) error { return errNoForm("AtomicBlocked", writeBlocked) }

// MarshalText is an error, errors.ErrUnsupported: an Exact has no serialized form.
func (e Exact) MarshalText() ([]byte, error) { return nil, errNoForm("Exact", writeBelow) }

// UnmarshalText is an error: see MarshalText.
func (e *Exact) UnmarshalText([]byte) error { return errNoForm("Exact", writeBelow) }

// MarshalText is an error, errors.ErrUnsupported: an Of has no serialized form.
func (o Of[T]) MarshalText() ([]byte, error) { return nil, errNoForm("Of", writeBelow) }

// UnmarshalText is an error: see MarshalText.
func (o *Of[T]) UnmarshalText([]byte) error { return errNoForm("Of", writeBelow) }

// MarshalText returns the function's name and, if it has one, the seed:
//
//	murmur3
//	xxh3:0123456789abcdef
//	siphash:0123456789abcdef
//
// The seed of HashSipHash is a secret, which String leaves out and MarshalText does
// not: without it the filter could not be asked.
func (h Hasher) MarshalText() ([]byte, error) {
	if h.id == 0 {
		return []byte(h.ID().String()), nil
	}
	return fmt.Appendf(nil, "%v:%016x", h.ID(), h.seed), nil
}

// UnmarshalText makes h the function that MarshalText made text of. The error is
// ErrUnknown if there is none, and leaves h as it was.
func (h *Hasher) UnmarshalText(text []byte) error {
	name, digits, seeded := strings.Cut(string(text), ":")
	for id := HashMurmur3; id.known(); id++ {
		if id.String() != name || seeded != (id != HashMurmur3) {
			continue
		}
		seed, err := uint64(0), error(nil)
		if seeded {
			seed, err = strconv.ParseUint(digits, 16, 64)
		}
		if err != nil {
			break
		}
		made, err := NewHasher(id, seed)
		if err == nil {
			*h = made
		}
		return err
	}
	return fmt.Errorf("bloom: %w: hash %q", ErrUnknown, name)
}
