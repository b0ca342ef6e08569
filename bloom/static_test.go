package bloom

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"testing"

	"github.com/shaledb/shale/bloom/internal/filtertest"
	"github.com/shaledb/shale/bloom/internal/form"
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

// A changed or missing byte of any kind of filter is an error.
func TestOpenStatic_Damaged(t *testing.T) {
	for _, kind := range everyKind {
		for _, hasher := range everyHasher() {
			good := mustAppend(filtertest.RandomHashes(1, 60), StaticOptions{Kind: kind, BitsPerKey: 16, Hasher: hasher})
			for i := range good {
				b := append([]byte(nil), good...)
				for _, change := range []byte{1, 2, 4, 8, 16, 32, 64, 128, 255} {
					b[i] = good[i] ^ change
					filtertest.CheckRefused(t, OpenStatic, "changed", b, nil)
				}
				filtertest.CheckRefused(t, OpenStatic, "cut at the end", good[:i], nil)
				if i > 0 {
					filtertest.CheckRefused(t, OpenStatic, "cut at the front", good[i:], nil)
				}
			}
			for _, n := range []int{1, 8, lineBytes} {
				filtertest.CheckRefused(t, OpenStatic, "more behind", append(good[:len(good):len(good)], make([]byte, n)...), nil)
				filtertest.CheckRefused(t, OpenStatic, "more in front", append(make([]byte, n), good...), ErrDamaged)
			}
		}
	}
	filtertest.CheckRefused(t, OpenStatic, "nil", nil, ErrDamaged)
	filtertest.CheckRefused(t, OpenStatic, "zeros", make([]byte, 96), ErrUnknown)
	filtertest.CheckRefused(t, OpenStatic, "ones", bytes.Repeat([]byte{0xff}, 96), ErrUnknown)
}

// What nobody writes is refused also under a checksum that fits.
func TestOpenStatic_ImpossibleHead(t *testing.T) {
	for _, kind := range everyKind {
		good := mustAppend(filtertest.RandomHashes(1, 60), StaticOptions{Kind: kind, BitsPerKey: 16})
		for _, c := range []struct {
			name   string
			change func(trailer []byte)
		}{
			{"kind 0", func(b []byte) { b[0] = 0 }},
			{"next kind", func(b []byte) { b[0] = byte(everyKind[len(everyKind)-1] + 1) }},
			{"version 0", func(b []byte) { b[1] = 0 }},
			{"next version", func(b []byte) { b[1]++ }},
			{"hash 0", func(b []byte) { b[2] = 0 }},
			{"next hash", func(b []byte) { b[2] = byte(HashSipHash) + 1 }},
			{"murmur3 with a seed", func(b []byte) { binary.LittleEndian.PutUint64(b[20:], 1) }},
			{"murmur3 with the largest seed", func(b []byte) { binary.LittleEndian.PutUint64(b[20:], math.MaxUint64) }},
		} {
			b := append([]byte(nil), good...)
			c.change(b[len(b)-form.TrailerLen:])
			filtertest.CheckRefused(t, OpenStatic, fmt.Sprintf("%v, %s", kind, c.name), filtertest.Reseal(b), ErrUnknown)
		}
	}
}
