package bloom

import (
	"bytes"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/shaledb/shale/bloom/internal/filtertest"
	"github.com/shaledb/shale/bloom/internal/form"
	"github.com/shaledb/shale/internal/testenv"
)

// checkFuseHolds fails if f denies one of the hashes.
func checkFuseHolds(t *testing.T, f *Fuse, hashes []uint64) {
	t.Helper()
	for i, h := range hashes {
		if !f.MayContainHash(h) {
			t.Fatalf("%d bits: MayContain(hash %d of %d, %016x) = false, want true", f.Bits(), i, len(hashes), h)
		}
	}
	if f.Count() != uint64(len(hashes)) {
		t.Errorf("Count() = %d, want %d", f.Count(), len(hashes))
	}
}

// Filters of every size up to 2000. There, segments are few, and the builder
// sometimes has to try again.
func TestFuse_NeverDenies(t *testing.T) {
	seed, _ := filtertest.Seed(t)
	r := rand.New(rand.NewPCG(seed, 1))
	hs := filtertest.RandomHashes(seed, 2000)
	step := 1
	if filtertest.Short() {
		step = 7
	}
	for n := 0; n <= len(hs); n += step {
		width := minFuse + r.IntN(maxFuse-minFuse+1)
		f := fuseOf(hs[:n], width)
		if checkFuseHolds(t, f, hs[:n]); t.Failed() || f.Bits() != width {
			t.Fatalf("%d keys of %d bits, want %d", n, f.Bits(), width)
		}
	}
}

func TestFuse_NeverDeniesMillion(t *testing.T) {
	n := 1 << 20
	if filtertest.Short() {
		n >>= 4
	}
	hs := filtertest.RandomHashes(2, n)
	for _, r := range []int{7, 16} {
		checkFuseHolds(t, fuseOf(hs, r), hs)
	}
}

// Hashes with one bit differ in every place that the filter takes bits from.
func TestFuse_ExtremeHashes(t *testing.T) {
	hs := []uint64{0, math.MaxUint64}
	for i := range 64 {
		one := uint64(1) << i
		hs = append(hs, one, ^one, -one)
	}
	slices.Sort(hs)
	hs = slices.Compact(hs)
	for n := range len(hs) + 1 {
		checkFuseHolds(t, fuseOf(hs[:n], minFuse+n%13), hs[:n])
	}
}

// Equal hashes all count as keys, and neither the order nor the hashes of the
// caller change.
func TestFuse_EqualHashes(t *testing.T) {
	hs := filtertest.RandomHashes(3, 3000)
	for name, given := range map[string][]uint64{
		"two alike":      {7, 7},
		"one twice":      append(slices.Clone(hs), hs[17]),
		"each twice":     slices.Repeat(hs, 2),
		"neighbours":     slices.Sorted(slices.Values(slices.Repeat(hs, 2))),
		"each six times": slices.Repeat(hs, 6),
		"one only":       slices.Repeat(hs[:1], 3000),
		"ten":            slices.Repeat(hs[:10], 500),
		"zero":           append(slices.Clone(hs), 0, 0, 0),
	} {
		before := slices.Clone(given)
		f := fuseOf(given, 9)
		checkFuseHolds(t, f, given)
		if !slices.Equal(given, before) {
			t.Errorf("%s: the caller's hashes changed", name)
		}
		if got, want := f.BitsPerKey(), FuseBits(len(given), 9); got != want {
			t.Errorf("%s: BitsPerKey() = %v, want %v", name, got, want)
		}
	}
}

// The size is known before a filter is built, to the bit.
func TestFuseBits_Exact(t *testing.T) {
	hs := filtertest.RandomHashes(6, 300000)
	sizes := []int{20000, 62500, 100000, 299999}
	if filtertest.Short() {
		sizes = sizes[:1]
	}
	for n := 0; n < 3000; n += 1 + n/9 {
		sizes = append(sizes, n)
	}
	for _, n := range sizes {
		for _, r := range []int{minFuse, 7, 8, 9, maxFuse} {
			f := fuseOf(hs[:n], r)
			if got, want := FuseBits(n, r), f.BitsPerKey(); got != want {
				t.Errorf("FuseBits(%d, %d) = %v, the filter has %v", n, r, got, want)
			}
			if got, want := float64(f.SizeBytes()-form.TrailerLen)*8/float64(max(n, 1)), f.BitsPerKey(); got != want {
				t.Errorf("%d keys: %d bytes are %v bits a key, BitsPerKey() = %v", n, f.SizeBytes(), got, want)
			}
			if got, want := f.FPR(), math.Pow(0.5, float64(r)); got != want || FuseFPR(r) != want {
				t.Errorf("FPR() = %v, FuseFPR(%d) = %v, want %v", got, r, FuseFPR(r), want)
			}
		}
	}
}

// The sizes that the literature and the plans of stores use.
func TestFuseBits_Known(t *testing.T) {
	for _, c := range []struct {
		n, r int
		bits float64
	}{{1e3, 8, 11.3}, {1e4, 8, 10.2}, {62500, 8, 9.70}, {250000, 8, 9.31}, {1e6, 8, 9.04}, {1e6, 16, 18.1}, {1e8, 8, 9.0}, {1e9, 4, 4.5}} {
		if got := FuseBits(c.n, c.r); math.Abs(got/c.bits-1) > 0.015 {
			t.Errorf("FuseBits(%d, %d) = %.2f, want %v", c.n, c.r, got, c.bits)
		}
	}
}

func TestFuseFor_Widest(t *testing.T) {
	for _, n := range []int{0, 1, 2, 100, 1000, 62500, 1e6, 1e9, maxFuseKeys} {
		for _, bits := range []float64{math.Inf(-1), -1, 0, 3, MinBits, 4.6, 5, 7.9, 8, 9, 9.05, 10, 12, 14, 17, 18.2, 20, MaxBits, 1e9, math.Inf(1)} {
			r := FuseFor(n, bits)
			if r < minFuse || r > maxFuse || r > minFuse && FuseBits(n, r) > bits || r < maxFuse && FuseBits(n, r+1) <= bits {
				t.Errorf("FuseFor(%d, %v) = %d, with %v bits a key, %v with one more", n, bits, r, FuseBits(n, r), FuseBits(n, r+1))
			}
		}
		if r := FuseFor(n, math.NaN()); r != minFuse {
			t.Errorf("FuseFor(%d, NaN) = %d, want %d", n, r, minFuse)
		}
	}
}

func TestAppendFuse_KeepsWhatIsThere(t *testing.T) {
	hs, o := filtertest.RandomHashes(7, 500), StaticOptions{Kind: KindFuse, BitsPerKey: 13}
	alone := mustAppend(hs, o)
	dirty := bytes.Repeat([]byte{0xff}, 4096)
	for _, dst := range [][]byte{[]byte("abc"), dirty[:3], dirty[:64], dirty[:4090]} {
		front := slices.Clone(dst)
		got, err := AppendStatic(dst, hs, o)
		if err != nil || !bytes.Equal(got[:len(front)], front) || !bytes.Equal(got[len(front):], alone) {
			t.Errorf("AppendStatic to %d bytes of %d differs from a filter alone: %v", len(dst), cap(dst), err)
		}
	}
	back := slices.Clone(hs)
	slices.Reverse(back)
	if !bytes.Equal(mustAppend(back, o), alone) {
		t.Error("filters of the same hashes in another order differ")
	}
}

// A filter that cannot be built leaves everything as it was.
func TestAppendFuse_Fails(t *testing.T) {
	for _, r := range []int{8, 9, 16} {
		b, err := new(fuseSolver).appendFuse([]byte("front"), filtertest.RandomHashes(8, 1000), r, Hasher{}, 0)
		if err == nil || string(b) != "front" || !strings.Contains(err.Error(), "1000 keys") {
			t.Errorf("appendFuse = %q, %v, want an error", b, err)
		}
	}
}

// Somebody has chosen hashes so that two of them have the same three places under every
// seed that the builder tries.
func TestAppendFuse_HostileHashes(t *testing.T) {
	testenv.SkipRace(t)
	r := rand.New(rand.NewPCG(1, 2))
	var hostile []uint64
	counter := uint64(1)
	for range fuseAttempts {
		seed := splitmix64(&counter)
		x := r.Uint64()
		hostile = append(hostile, unfinish(x)-seed, unfinish(x^1<<30)-seed)
	}
	tr := fuseTrailer{r: 8}
	if _, err := new(fuseSolver).solve(hostile, 0, &tr, fuseAttempts); err == nil {
		t.Error("the solver without a salt manages hostile hashes: they are not")
	}
	checkFuseHolds(t, fuseOf(hostile, 8), hostile)
	more := append(filtertest.RandomHashes(1, 1000), hostile...)
	checkFuseHolds(t, fuseOf(more, 8), more)
}

// unfinish returns what finish turns into h.
func unfinish(h uint64) uint64 {
	for _, mul := range []uint64{0xc4ceb9fe1a85ec53, 0xff51afd7ed558ccd} {
		h ^= h >> 33
		inverse := mul
		for range 5 { // Newton's method doubles the bits that are right
			inverse *= 2 - mul*inverse
		}
		h *= inverse
	}
	return h ^ h>>33
}
