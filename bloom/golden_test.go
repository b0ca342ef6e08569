package bloom

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"testing"

	"github.com/shaledb/shale/bloom/internal/filtertest"
	"github.com/shaledb/shale/bloom/internal/form"
)

// goldens are filters whose bytes are stored: of no key, of the two keys of the worked
// example, and of enough keys for more lines, with one unit and with two.
var goldens = []struct {
	name string
	keys int
	bits float64
}{
	{"none", 0, 10},
	{"example", 2, 10},
	{"narrow", 100, 4},
	{"ten", 100, 10},
	{"nine-probes", 100, 13.9},
	{"two-units", 100, 14},
	{"flush", 100, 24},
	{"widest", 100, 26},
}

func goldenHashes(n int) []uint64 {
	hs := make([]uint64, n)
	for i := range hs {
		hs[i] = Hash(fmt.Appendf(nil, "key-%d", i))
	}
	return hs
}

// Filters written by earlier programs open and hold their keys, and this one
// writes the same bytes.
func TestGolden_Version1(t *testing.T) {
	for _, g := range goldens {
		hs := goldenHashes(g.keys)
		made := AppendBlocked(nil, hs, g.bits)
		kept := filtertest.ReadGolden(t, g.name+"-v1.filter", func() []byte { return made })
		if !bytes.Equal(made, kept) {
			t.Errorf("%s: the filter's bytes changed", g.name)
		}
		f, err := OpenBlocked(kept)
		if err != nil {
			t.Errorf("%s: %v", g.name, err)
			continue
		}
		checkHolds(t, f, hs)
		if f.Count() != uint64(g.keys) || f.SizeBytes() != BlockedSize(g.keys, g.bits) {
			t.Errorf("%s: %d keys in %d bytes, want %d in %d", g.name, f.Count(), f.SizeBytes(), g.keys, BlockedSize(g.keys, g.bits))
		}
	}
}

// staticGoldens are filters of other kinds and hash functions whose bytes are
// stored, like those of goldens.
var staticGoldens = []struct {
	name string
	keys int
	o    StaticOptions
}{
	{"xxh3", 100, StaticOptions{Kind: KindBlocked, BitsPerKey: 10, Hasher: hasherOf(HashXXH3, 0)}},
	{"xxh3-seed", 100, StaticOptions{Kind: KindBlocked, BitsPerKey: 20, Hasher: hasherOf(HashXXH3, 0x0123456789abcdef)}},
	{"siphash", 100, StaticOptions{Kind: KindBlocked, BitsPerKey: 10, Hasher: hasherOf(HashSipHash, 0x0123456789abcdef)}},
	{"fuse-none", 0, StaticOptions{Kind: KindFuse, BitsPerKey: 10}},
	{"fuse-example", 2, StaticOptions{Kind: KindFuse, BitsPerKey: 96}},  // fingerprints of 10 bits
	{"fuse-narrow", 100, StaticOptions{Kind: KindFuse, BitsPerKey: 4}},  // of 4
	{"fuse-ten", 100, StaticOptions{Kind: KindFuse, BitsPerKey: 20}},    // of 10
	{"fuse-widest", 100, StaticOptions{Kind: KindFuse, BitsPerKey: 40}}, // of 16
	{"fuse-siphash", 100, StaticOptions{Kind: KindFuse, BitsPerKey: 16, Hasher: hasherOf(HashSipHash, 0x0123456789abcdef)}},
}

func TestGolden_Static(t *testing.T) {
	for _, g := range staticGoldens {
		hs := keyHashes(g.o.Hasher, g.keys)
		made := mustAppend(hs, g.o)
		kept := filtertest.ReadGolden(t, g.name+"-v1.filter", func() []byte { return made })
		if !bytes.Equal(made, kept) {
			t.Errorf("%s: the filter's bytes changed", g.name)
		}
		f, err := OpenStatic(kept)
		if err != nil {
			t.Errorf("%s: %v", g.name, err)
			continue
		}
		if f.Kind() != g.o.Kind || f.Hasher() != g.o.Hasher || f.Count() != uint64(g.keys) {
			t.Errorf("%s: a %v of %d keys of %v", g.name, f.Kind(), f.Count(), f.Hasher())
		}
		for i, h := range hs {
			if !f.MayContainHash(h) {
				t.Errorf("%s: key-%d is denied", g.name, i)
			}
		}
	}
}

// Fuse filters of the first builder open and hold their keys. It peeled the newest place first,
// and so found other fingerprints for the same keys.
func TestGolden_FuseOfTheFirstBuilder(t *testing.T) {
	for _, g := range staticGoldens {
		if g.o.Kind != KindFuse || g.keys == 0 {
			continue
		}
		kept, err := os.ReadFile("testdata/" + g.name + "-stack-v1.filter")
		if err != nil {
			t.Fatal(err)
		}
		f, err := OpenStatic(kept)
		if err != nil {
			t.Errorf("%s: %v", g.name, err)
			continue
		}
		for i, h := range keyHashes(g.o.Hasher, g.keys) {
			if !f.MayContainHash(h) {
				t.Errorf("%s: key-%d is denied", g.name, i)
			}
		}
		if now := mustAppend(keyHashes(g.o.Hasher, g.keys), g.o); len(now) != len(kept) || bytes.Equal(now, kept) {
			t.Errorf("%s: a filter of today has %d bytes, want %d other ones", g.name, len(now), len(kept))
		}
	}
}

// A filter of a later version is unknown, whatever it contains, with a good
// checksum or a wrong one.
func TestGolden_Version2(t *testing.T) {
	kept := filtertest.ReadGolden(t, "example-v2.filter", func() []byte {
		b := AppendBlocked(nil, goldenHashes(2), 10)
		b[len(b)-form.TrailerLen+1] = blockedVersion + 1
		return filtertest.Reseal(b)
	})
	for _, b := range [][]byte{kept, append(kept[:5:5], kept...), filtertest.Reseal(kept)[len(kept)-form.TrailerLen:]} {
		if f, err := OpenBlocked(b); f != nil || !errors.Is(err, ErrUnknown) {
			t.Errorf("OpenBlocked(version 2) = %v, %v, want ErrUnknown", f, err)
		}
	}
}
