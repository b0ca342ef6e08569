package bloom

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/shaledb/shale/bloom/internal/form"
)

// MarshalText returns the bytes of AppendBinary in base64.
func (f Filter) MarshalText() ([]byte, error) { return form.Text(f.MarshalBinary()) }

// UnmarshalText makes f the filter that MarshalText wrote as text: see UnmarshalBinary.
func (f *Filter) UnmarshalText(text []byte) error { return form.UnmarshalText(text, f.UnmarshalBinary) }

// MarshalText returns the bytes of AppendBinary in base64.
func (f Blocked) MarshalText() ([]byte, error) { return form.Text(f.MarshalBinary()) }

// UnmarshalText makes f the filter that MarshalText wrote as text: see UnmarshalBinary.
func (f *Blocked) UnmarshalText(text []byte) error {
	return form.UnmarshalText(text, f.UnmarshalBinary)
}

// MarshalText returns the bytes of AppendBinary in base64.
func (f Fuse) MarshalText() ([]byte, error) { return form.Text(f.MarshalBinary()) }

// UnmarshalText makes f the filter that MarshalText wrote as text: see UnmarshalBinary.
func (f *Fuse) UnmarshalText(text []byte) error { return form.UnmarshalText(text, f.UnmarshalBinary) }

// MarshalText returns the bytes of AppendBinary in base64. It works on a copy of s, and
// does not keep s itself reachable. A caller that frees the bytes of [OpenStatic] when s can
// no longer be reached must call runtime.KeepAlive(s) after it.
func (s Static) MarshalText() ([]byte, error) { return form.Text(s.MarshalBinary()) }

// UnmarshalText makes s the filter that MarshalText wrote as text: see UnmarshalBinary.
func (s *Static) UnmarshalText(text []byte) error { return form.UnmarshalText(text, s.UnmarshalBinary) }

// MarshalText returns the bytes of AppendBinary in base64.
func (f AtomicBlocked) MarshalText() ([]byte, error) { return form.Text(f.MarshalBinary()) }

// UnmarshalText makes f the filter that MarshalText wrote as text: see UnmarshalBinary.
func (f *AtomicBlocked) UnmarshalText(text []byte) error {
	return form.UnmarshalText(text, f.UnmarshalBinary)
}

// MarshalText returns the function's name and, if it has one, the seed:
//
//	murmur3
//	xxh3:0123456789abcdef
//	siphash:0123456789abcdef
//
// The seed of [HashSipHash] is a secret. String leaves it out. MarshalText does not, because
// the filter could not be asked without it.
func (h Hasher) MarshalText() ([]byte, error) {
	if h.id == 0 {
		return []byte(h.ID().String()), nil
	}
	return fmt.Appendf(nil, "%v:%016x", h.ID(), h.seed), nil
}

// UnmarshalText makes h the function that MarshalText wrote as text. If there is no such
// function, the error is [ErrUnknown], and h stays as it was.
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
