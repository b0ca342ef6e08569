package bloom

import (
	"bytes"
	"errors"
	"slices"
	"testing"

	"github.com/shaledb/shale/bloom/internal/filtertest"
	"github.com/shaledb/shale/internal/testenv"
)

// One builder makes the bytes that AppendStatic makes, whatever it built before: larger and
// smaller filters, of both kinds, with equal hashes, sorted and unsorted.
func TestStaticBuilder_SameBytes(t *testing.T) {
	sizes := []int{3000, 0, 1, 20000, 2, 700, 30, 20000, 5}
	if !filtertest.Short() {
		sizes = append(sizes, unsortedPlaces, 1000, unsortedPlaces, 100)
	}
	var builder StaticBuilder
	for i, n := range sizes {
		hs := filtertest.RandomHashes(uint64(i), n)
		for _, o := range []StaticOptions{
			{BitsPerKey: 10},
			{Kind: KindFuse, BitsPerKey: FuseBits(n, 4+i%13)},
			{Kind: KindFuse, BitsPerKey: FuseBits(2*n, 8), Hasher: hasherOf(HashXXH3, 7)},
		} {
			given := hs
			if o.Hasher.ID() == HashXXH3 {
				given = slices.Repeat(hs, 2)
			}
			got, err := builder.Append([]byte("front"), given, o)
			if err != nil {
				t.Fatal(err)
			}
			if want := mustAppend(given, o); string(got[:5]) != "front" || !bytes.Equal(got[5:], want) {
				t.Errorf("filter %d, %v of %d keys: the builder's bytes differ", i, o.Kind, len(given))
			}
			f := mustOpenStatic(got[5:])
			for _, h := range given {
				if !f.MayContainHash(h) {
					t.Fatalf("filter %d, %v of %d keys: %016x is denied", i, o.Kind, len(given), h)
				}
			}
		}
	}
}

func TestStaticBuilder_UnknownKind(t *testing.T) {
	var builder StaticBuilder
	if b, err := builder.Append([]byte("front"), nil, StaticOptions{Kind: 9}); string(b) != "front" || !errors.Is(err, ErrUnknown) {
		t.Errorf("Append of kind 9 = %q, %v, want ErrUnknown", b, err)
	}
}

// A builder that has built a filter of as many keys allocates nothing.
func TestStaticBuilder_Allocs(t *testing.T) {
	testenv.SkipRace(t)
	hs := filtertest.RandomHashes(1, 3000)
	var builder StaticBuilder
	var dst []byte
	build := func() {
		for _, n := range []int{3000, 100, 2999} {
			for _, o := range []StaticOptions{{Kind: KindFuse, BitsPerKey: 10}, {Kind: KindFuse, BitsPerKey: 20}, {BitsPerKey: 10}} {
				var err error
				if dst, err = builder.Append(dst[:0], hs[:n], o); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	if build(); testing.AllocsPerRun(20, build) != 0 {
		t.Error("a builder in use allocates")
	}
}
