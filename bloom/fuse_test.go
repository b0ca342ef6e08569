package bloom

import (
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
