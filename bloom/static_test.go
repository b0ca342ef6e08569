package bloom

import (
	"errors"
	"fmt"
	"testing"

	"github.com/shaledb/shale/bloom/internal/filtertest"
)

// mustAppend builds a filter that has to succeed.
func mustAppend(hashes []uint64, o StaticOptions) []byte {
	b, err := AppendStatic(nil, hashes, o)
	if err != nil {
		panic(err)
	}
	return b
}

// mustOpenStatic opens a filter that has to be good.
func mustOpenStatic(b []byte) *Static {
	f, err := OpenStatic(b)
	if err != nil {
		panic(err)
	}
	return f
}

// keyHashes are the hashes by h of the keys of goldenHashes.
func keyHashes(h Hasher, n int) []uint64 {
	hs := make([]uint64, n)
	for i := range hs {
		hs[i] = h.Hash(fmt.Appendf(nil, "key-%d", i))
	}
	return hs
}

// A filter knows the function of its hashes. OpenBlocked, whose callers hash with
// Hash, refuses other functions.
func TestStatic_KnowsItsHasher(t *testing.T) {
	for _, kind := range everyKind {
		for _, hasher := range everyHasher() {
			for _, bits := range []float64{10, 20} {
				hs := keyHashes(hasher, 500)
				b := mustAppend(hs, StaticOptions{Kind: kind, BitsPerKey: bits, Hasher: hasher})
				s := mustOpenStatic(b)
				if s.Hasher() != hasher || s.FirstUnit().Hasher() != hasher || s.Count() != 500 {
					t.Errorf("%v: Hasher() = %v, of the first unit %v, want %v", kind, s.Hasher(), s.FirstUnit().Hasher(), hasher)
				}
				for i := range hs {
					if h := s.Hasher().Hash(fmt.Appendf(nil, "key-%d", i)); !s.MayContainHash(h) || !s.FirstUnit().MayContainHash(h) {
						t.Fatalf("%v of %v: key-%d is denied", kind, hasher.ID(), i)
					}
				}
				_, err := OpenBlocked(b)
				if known := kind == KindBlocked && hasher == (Hasher{}); known != (err == nil) || !known && !errors.Is(err, ErrUnknown) {
					t.Errorf("%v of %v: OpenBlocked: %v", kind, hasher.ID(), err)
				}
			}
		}
	}
}

var everyKind = []Kind{KindBlocked, KindFuse}

func TestAppendStatic_UnknownKind(t *testing.T) {
	front := []byte("front")
	for _, kind := range []Kind{everyKind[len(everyKind)-1] + 1, 255} {
		b, err := AppendStatic(front, filtertest.RandomHashes(1, 10), StaticOptions{Kind: kind, BitsPerKey: 10})
		if !errors.Is(err, ErrUnknown) || string(b) != "front" {
			t.Errorf("kind %d: %q, %v, want ErrUnknown", kind, b, err)
		}
		if kind.String() != "unknown" {
			t.Errorf("kind %d is %q", kind, kind)
		}
	}
}
