package bloom

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// The text of a filter is its serialized form in base64 (RFC 4648, with padding).
// encoding/json, encoding/xml and other encoders that know encoding.TextMarshaler write it.
// MarshalText has value receivers: an encoder that gets a filter by value sees only such
// methods. Without them it would write an empty object and return no error.

// textOf returns b in base64, or err.
func textOf(b []byte, err error) ([]byte, error) {
	if err != nil {
		return nil, err
	}
	return base64.StdEncoding.AppendEncode(nil, b), nil
}

// unmarshalText decodes text and calls unmarshal with the bytes.
func unmarshalText(text []byte, unmarshal func(b []byte) error) error {
	b, err := base64.StdEncoding.AppendDecode(nil, text)
	if err != nil {
		return damage("%v", err)
	}
	return unmarshal(b)
}

// errNoForm says that a type has no serialized form. It is returned so that no encoder
// writes or reads an empty object in its place.
func errNoForm(what, instead string) error {
	return fmt.Errorf("bloom: a %s has no serialized form: %w: %s", what, errors.ErrUnsupported, instead)
}

// MarshalText returns the bytes of AppendBinary in base64.
func (f Filter) MarshalText() ([]byte, error) { return textOf(f.MarshalBinary()) }

// UnmarshalText makes f the filter that MarshalText wrote as text: see UnmarshalBinary.
func (f *Filter) UnmarshalText(text []byte) error { return unmarshalText(text, f.UnmarshalBinary) }

// MarshalText returns the bytes of AppendBinary in base64.
func (s Scalable) MarshalText() ([]byte, error) { return textOf(s.MarshalBinary()) }

// UnmarshalText makes s the filter that MarshalText wrote as text: see UnmarshalBinary.
func (s *Scalable) UnmarshalText(text []byte) error { return unmarshalText(text, s.UnmarshalBinary) }

// MarshalText returns the bytes of AppendBinary in base64.
func (f Counting) MarshalText() ([]byte, error) { return textOf(f.MarshalBinary()) }

// UnmarshalText makes f the filter that MarshalText wrote as text: see UnmarshalBinary.
func (f *Counting) UnmarshalText(text []byte) error { return unmarshalText(text, f.UnmarshalBinary) }

// MarshalText returns the bytes of AppendBinary in base64.
func (f Cuckoo) MarshalText() ([]byte, error) { return textOf(f.MarshalBinary()) }

// UnmarshalText makes f the filter that MarshalText wrote as text: see UnmarshalBinary.
func (f *Cuckoo) UnmarshalText(text []byte) error { return unmarshalText(text, f.UnmarshalBinary) }

// MarshalText returns the bytes of AppendBinary in base64.
func (s Bitset) MarshalText() ([]byte, error) { return textOf(s.MarshalBinary()) }

// UnmarshalText makes s the set that MarshalText wrote as text: see UnmarshalBinary.
func (s *Bitset) UnmarshalText(text []byte) error { return unmarshalText(text, s.UnmarshalBinary) }

// MarshalText returns the bytes of AppendBinary in base64.
func (f Blocked) MarshalText() ([]byte, error) { return textOf(f.MarshalBinary()) }

// UnmarshalText makes f the filter that MarshalText wrote as text: see UnmarshalBinary.
func (f *Blocked) UnmarshalText(text []byte) error { return unmarshalText(text, f.UnmarshalBinary) }

// MarshalText returns the bytes of AppendBinary in base64.
func (f Fuse) MarshalText() ([]byte, error) { return textOf(f.MarshalBinary()) }

// UnmarshalText makes f the filter that MarshalText wrote as text: see UnmarshalBinary.
func (f *Fuse) UnmarshalText(text []byte) error { return unmarshalText(text, f.UnmarshalBinary) }

// MarshalText returns the bytes of AppendBinary in base64. It works on a copy of s, and
// does not keep s itself reachable. A caller that frees the bytes of OpenStatic when s can
// no longer be reached must call runtime.KeepAlive(s) after it.
func (s Static) MarshalText() ([]byte, error) { return textOf(s.MarshalBinary()) }

// UnmarshalText makes s the filter that MarshalText wrote as text: see UnmarshalBinary.
func (s *Static) UnmarshalText(text []byte) error { return unmarshalText(text, s.UnmarshalBinary) }

const (
	writeBlocked = "a Blocked has one"
	writeBelow   = "write the filter below"
)

// MarshalText always returns an error, which is errors.ErrUnsupported: an
// AtomicBlocked has no serialized form.
func (f AtomicBlocked) MarshalText() ([]byte, error) {
	return nil, errNoForm("AtomicBlocked", writeBlocked)
}

// UnmarshalText always returns an error: see MarshalText.
func (f *AtomicBlocked) UnmarshalText([]byte) error { return errNoForm("AtomicBlocked", writeBlocked) }

// MarshalText always returns an error, which is errors.ErrUnsupported: an Exact
// has no serialized form.
func (e Exact) MarshalText() ([]byte, error) { return nil, errNoForm("Exact", writeBelow) }

// UnmarshalText always returns an error: see MarshalText.
func (e *Exact) UnmarshalText([]byte) error { return errNoForm("Exact", writeBelow) }

// MarshalText always returns an error, which is errors.ErrUnsupported: an Of has
// no serialized form.
func (o Of[T]) MarshalText() ([]byte, error) { return nil, errNoForm("Of", writeBelow) }

// UnmarshalText always returns an error: see MarshalText.
func (o *Of[T]) UnmarshalText([]byte) error { return errNoForm("Of", writeBelow) }

// MarshalText returns the function's name and, if it has one, the seed:
//
//	murmur3
//	xxh3:0123456789abcdef
//	siphash:0123456789abcdef
//
// The seed of HashSipHash is a secret. String leaves it out. MarshalText does not, because
// the filter could not be asked without it.
func (h Hasher) MarshalText() ([]byte, error) {
	if h.id == 0 {
		return []byte(h.ID().String()), nil
	}
	return fmt.Appendf(nil, "%v:%016x", h.ID(), h.seed), nil
}

// UnmarshalText makes h the function that MarshalText wrote as text. If there is no such
// function, the error is ErrUnknown, and h stays as it was.
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
