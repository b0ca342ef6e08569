package bloom

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/big"
	"testing"

	"github.com/shaledb/shale/bloom/internal/filtertest"
	"github.com/shaledb/shale/bloom/internal/form"
)

// specFuse returns a hash's three places and what a filter answers, as
// docs/FORMAT.md says, bit by bit and with big numbers.
func specFuse(b []byte, h uint64) (places [3]uint64, may bool) {
	le := binary.LittleEndian
	trailer := b[len(b)-32:]
	r, segments, length := uint64(trailer[3]), uint64(le.Uint32(trailer[12:])), uint64(le.Uint32(trailer[16:]))
	x := h + le.Uint64(b[len(b)-40:])
	x = (x ^ x>>33) * 0xff51afd7ed558ccd
	x = (x ^ x>>33) * 0xc4ceb9fe1a85ec53
	x ^= x >> 33
	product := new(big.Int).Mul(new(big.Int).SetUint64(x), new(big.Int).SetUint64(segments*length))
	places[0] = product.Rsh(product, 64).Uint64()
	places[1] = (places[0] + length) ^ (x>>18)%length
	places[2] = (places[0] + 2*length) ^ x%length
	want := (x ^ x>>32) % (1 << r)
	for _, place := range places {
		for i := range r {
			bit := place*r + i
			want ^= uint64(b[bit/8]>>(bit%8)&1) << i
		}
	}
	return places, want == 0
}

func TestFormat_FuseAsDocumented(t *testing.T) {
	for r := minFuse; r <= maxFuse; r++ {
		for _, n := range []int{0, 1, 2, 30, 700, 20000} {
			if filtertest.Short() && n > 700 {
				continue
			}
			hs := filtertest.RandomHashes(uint64(r), n)
			b := mustAppend(hs, StaticOptions{Kind: KindFuse, BitsPerKey: FuseBits(n, r)})
			f, err := OpenFuse(b)
			if err != nil {
				t.Fatal(err)
			}
			for _, h := range append(filtertest.RandomHashes(99, 3000), hs[:min(n, 700)]...) {
				if _, want := specFuse(b, h); f.MayContainHash(h) != want {
					t.Fatalf("%d keys of %d bits: MayContain(%016x) = %v, want %v", n, r, h, !want, want)
				}
			}
		}
	}
}

// Segments that no writer chooses yet but a reader must understand: the last
// place is at the end of the fingerprints, and any bytes are fingerprints.
func TestFormat_FuseAnyGeometry(t *testing.T) {
	for _, g := range []struct{ segments, length uint64 }{{1, 1}, {1, 2}, {7, 1}, {3, 4}, {1000, 16}, {1, 4096}, {2, maxFuseLength}} {
		for _, r := range []uint64{minFuse, 7, 13, maxFuse} {
			tr := fuseTrailer{r: r, segments: g.segments, length: g.length}
			b := make([]byte, tr.bodySize()+form.TrailerLen)
			for i, h := range filtertest.RandomHashes(r, len(b)/8) {
				binary.LittleEndian.PutUint64(b[8*i:], h)
			}
			tr.put(b)
			f, err := OpenFuse(b)
			if err != nil {
				t.Fatal(err)
			}
			passed := 0
			hs := append(filtertest.RandomHashes(r, 3000), -f.seed, math.MaxUint64-f.seed)
			for _, h := range hs {
				_, want := specFuse(b, h)
				if f.MayContainHash(h) != want {
					t.Fatalf("%v, %d bits: MayContain(%016x) = %v, want %v", g, r, h, !want, want)
				}
				if want {
					passed++
				}
			}
			if passed == len(hs) || passed == 0 && r < 8 && g.length > 4 {
				t.Errorf("%v, %d bits: %d of %d random hashes pass", g, r, passed, len(hs))
			}
		}
	}
}

// Fields that no writer writes are refused also under a checksum that fits.
func TestOpenFuse_ImpossibleFields(t *testing.T) {
	good := mustAppend(filtertest.RandomHashes(3, 60), StaticOptions{Kind: KindFuse, BitsPerKey: 20})
	tr, err := parseFuse(good, int64(len(good)), onlyMurmur3)
	if err != nil {
		t.Fatal(err)
	}
	le := binary.LittleEndian
	for _, c := range []struct {
		name   string
		change func(b []byte)
	}{
		{"no bits", func(b []byte) { b[3] = 0 }},
		{"a bit more", func(b []byte) { b[3]++ }},
		{"a bit less", func(b []byte) { b[3]-- }},
		{"most bits", func(b []byte) { b[3] = 255 }},
		{"reserved byte 4", func(b []byte) { b[4] = 1 }},
		{"reserved byte 7", func(b []byte) { b[7] = 1 }},
		{"no segments", func(b []byte) { le.PutUint32(b[12:], 0) }},
		{"a segment more", func(b []byte) { le.PutUint32(b[12:], uint32(tr.segments)+1) }},
		{"a segment less", func(b []byte) { le.PutUint32(b[12:], uint32(tr.segments)-1) }},
		{"most segments", func(b []byte) { le.PutUint32(b[12:], math.MaxUint32) }},
		{"length 0", func(b []byte) { le.PutUint32(b[16:], 0) }},
		{"longest", func(b []byte) { le.PutUint32(b[16:], math.MaxUint32) }},
		{"most of both", func(b []byte) { le.PutUint64(b[12:], math.MaxUint64) }},
		{"most of all", func(b []byte) { b[3] = 255; le.PutUint64(b[12:], math.MaxUint64) }},
		{"places that wrap in 64 bits", func(b []byte) { le.PutUint32(b[12:], 1<<30-2); le.PutUint32(b[16:], 1<<31) }},
	} {
		b := append([]byte(nil), good...)
		c.change(b[len(b)-form.TrailerLen:])
		filtertest.CheckRefused(t, OpenStatic, c.name, filtertest.Reseal(b), ErrDamaged)
	}
	// The same, where the length fits.
	for _, tr := range []fuseTrailer{
		{r: minFuse - 1, segments: 1, length: 4}, {r: maxFuse + 1, segments: 1, length: 4}, {r: 0, segments: 1, length: 4},
		{r: 8, segments: 0, length: 4}, {r: 8, segments: 1, length: 0}, {r: 8, segments: math.MaxUint32, length: 0},
		{r: 8, segments: 1, length: 3}, {r: 8, segments: 1, length: 12}, {r: 4, segments: 1, length: maxFuseLength - 1},
		{r: 4, segments: 1, length: 2 * maxFuseLength},
	} {
		b := make([]byte, tr.bodySize()+form.TrailerLen)
		tr.put(b)
		filtertest.CheckRefused(t, OpenStatic, fmt.Sprintf("%+v", tr), b, ErrDamaged)
	}
}

// OpenFuse is for users of Hash.
func TestOpenFuse_OtherHash(t *testing.T) {
	for _, hasher := range everyHasher()[1:] {
		b := mustAppend(filtertest.RandomHashes(1, 60), StaticOptions{Kind: KindFuse, BitsPerKey: 10, Hasher: hasher})
		if f, err := OpenFuse(b); f != nil || err == nil {
			t.Errorf("OpenFuse of %v: %v, %v", hasher.ID(), f, err)
		}
	}
	for _, b := range [][]byte{nil, AppendBlocked(nil, nil, 10)} {
		if f, err := OpenFuse(b); f != nil || err == nil {
			t.Errorf("OpenFuse(%x) = %v, %v", b, f, err)
		}
	}
}
