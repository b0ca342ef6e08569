package bloom

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"unsafe"

	"github.com/shaledb/shale/bloom/internal/filtertest"
	"github.com/shaledb/shale/bloom/internal/form"
)

// everyWidth has bits a key on both sides of every change of probes and units,
// and some outside of the bounds.
var everyWidth = []float64{
	math.Inf(-1), -1, 0, MinBits, 4.5, 5.1, 6, 6.65, 7, 8, 8.27, 9.4, 10, 10.25, 11, 11.85, 12, 12.05, 13.8,
	13.999, twoUnitBits, 15, 16, 18, 19.3, 20, 22, 24, MaxBits, 100, math.Inf(1), math.NaN(),
}

// checkHolds fails if f or its first unit denies one of the hashes.
func checkHolds(t *testing.T, f *Blocked, hashes []uint64) {
	t.Helper()
	g := f.FirstUnit()
	for i, h := range hashes {
		if !f.MayContainHash(h) || !g.MayContainHash(h) {
			t.Fatalf("MayContain(hash %d of %d, %016x) = %v, of the first unit %v, want true",
				i, len(hashes), h, f.MayContainHash(h), g.MayContainHash(h))
		}
	}
}

func TestBlocked_NeverDenies(t *testing.T) {
	sizes := []int{0, 1, 2, 3, 15, 16, 17, 50, 51, 52, 53, 100, 1000, 1023, 1024, 1025, 30000}
	hs := filtertest.RandomHashes(1, slices.Max(sizes))
	for _, bits := range everyWidth {
		for _, n := range sizes {
			t.Run(fmt.Sprintf("%v/%d", bits, n), func(t *testing.T) {
				f := mustOpen(AppendBlocked(nil, hs[:n], bits))
				checkHolds(t, f, hs[:n])
				if f.Count() != uint64(n) {
					t.Errorf("Count() = %d, want %d", f.Count(), n)
				}
			})
		}
	}
}

func TestBlockedSize_Exact(t *testing.T) {
	hs := filtertest.RandomHashes(4, 3000)
	for _, bits := range everyWidth {
		for n := 0; n <= len(hs); n += 1 + n/7 {
			b := AppendBlocked(nil, hs[:n], bits)
			if got := BlockedSize(n, bits); got != len(b) {
				t.Fatalf("BlockedSize(%d, %v) = %d, want %d", n, bits, got, len(b))
			}
			f := mustOpen(b)
			wide := MinBits
			if bits > MinBits {
				wide = min(bits, MaxBits)
			}
			asked := wide * float64(n) / 8
			if most := asked + float64(64*f.Units()+form.TrailerLen); float64(len(b)) > most {
				t.Errorf("%d bytes for %d keys of %v bits, want at most %v", len(b), n, bits, most)
			}
			if float64(len(b)-form.TrailerLen) < asked {
				t.Errorf("%d bytes for %d keys of %v bits, want at least %v", len(b), n, bits, asked)
			}
		}
	}
}

// Numbers of keys that fit into no memory stop at the limits of the trailer and of int.
func TestBlockedSize_Huge(t *testing.T) {
	for _, bits := range everyWidth {
		last := 0
		for _, n := range []int{1e3, 1e6, 1e9, math.MaxInt32, math.MaxInt} {
			size := BlockedSize(n, bits)
			if size < last {
				t.Errorf("BlockedSize(%d, %v) = %d, less than %d for fewer keys", n, bits, size, last)
			}
			last = size
		}
	}
}

// A filter in new memory, and the copy of a first unit, begin at a cache line. So
// a probe costs one line.
func TestBlocked_Aligned(t *testing.T) {
	hs := filtertest.RandomHashes(7, 20000)
	for n := 0; n < len(hs); n += 1 + n/20 {
		b := AppendBlocked(nil, hs[:n], 16)
		g := mustOpen(b).FirstUnit()
		for _, p := range []*byte{&b[0], &g.units.First.Bytes[0]} {
			if uintptr(unsafe.Pointer(p))%lineBytes != 0 {
				t.Fatalf("%d keys: lines at %p", n, p)
			}
		}
	}
}

func TestBlocked_FirstUnit(t *testing.T) {
	hs := filtertest.RandomHashes(8, 40000)
	one := mustOpen(AppendBlocked(nil, hs, 10))
	if one.FirstUnit() != one || one.FirstUnitBytes() != one.SizeBytes() || one.Units() != 1 {
		t.Errorf("a filter of one unit is not its own first unit")
	}
	for _, bits := range []float64{14, 16, 20, 26} {
		b := AppendBlocked(nil, hs, bits)
		f := mustOpen(b)
		g := f.FirstUnit()
		if f.Units() != 2 || g.Units() != 1 || g.Count() != f.Count() {
			t.Errorf("Units() = %d, of the first unit %d, keys %d, want 2, 1, %d", f.Units(), g.Units(), g.Count(), f.Count())
		}
		if g.SizeBytes() != f.FirstUnitBytes() || g.SizeBytes() >= f.SizeBytes() {
			t.Errorf("the first unit has %d bytes, want %d, less than %d", g.SizeBytes(), f.FirstUnitBytes(), f.SizeBytes())
		}
		if want := max(firstUnitBits, bits/2); math.Abs(g.BitsPerKey()-want) > 0.02 {
			t.Errorf("the first unit has %v bits a key, want %v", g.BitsPerKey(), want)
		}
		// Its bytes are its own: those of f may be changed.
		before := make([]bool, 0, 50000)
		asked := filtertest.RandomHashes(9, cap(before))
		hits := 0
		for _, h := range asked {
			may := g.MayContainHash(h)
			if before = append(before, may); may {
				hits++
			} else if f.MayContainHash(h) {
				t.Fatalf("the first unit denies %016x, the filter does not", h)
			}
		}
		rate, want := float64(hits)/float64(len(asked)), g.FPR()
		if math.Abs(rate-want) > 4*math.Sqrt(want/float64(len(asked)))+0.03*want {
			t.Errorf("the first unit of %v bits lets pass %v, predicted %v", bits, rate, want)
		}
		clear(b)
		for i, h := range asked {
			if g.MayContainHash(h) != before[i] {
				t.Fatal("the first unit's answers change with the bytes of the filter it came from")
			}
		}
	}
}

func TestAllocations(t *testing.T) {
	hs := filtertest.RandomHashes(12, 1000)
	two := mustOpen(AppendBlocked(nil, hs, 20))
	fuse := staticOf(hs, StaticOptions{Kind: KindFuse, BitsPerKey: 12})
	key, hashers := fill(2000), everyHasher()
	buf := make([]byte, 0, BlockedSize(len(hs), 20))
	for name, fn := range map[string]func(){
		"MayContainHash": func() { benchSink = two.MayContainHash(hs[0]) != two.MayContainHash(1) && fuse.MayContainHash(hs[0]) },
		"Hasher.Hash": func() {
			for _, h := range hashers {
				benchWord = h.Hash(key)
			}
		},
		"AppendBlocked with room": func() { AppendBlocked(buf, hs, 20) },
		"FPR":                     func() { two.FPR() },
	} {
		if n := testing.AllocsPerRun(100, fn); n != 0 {
			t.Errorf("%s: %v allocations, want 0", name, n)
		}
	}
}
