package bloom_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/shaledb/shale/bloom"
	"github.com/shaledb/shale/bloom/sketch"
)

// A counted is a filter that estimates how many keys it has.
type counted[F any] interface {
	*F
	bloom.Adder
	EstimatedCount() float64
	UnionCount(other *F) (float64, error)
	IntersectionCount(other *F) (float64, error)
	Union(other *F) error
}

// Two filters share a part of their keys. All estimates are within three sigma of the true
// numbers, and the estimate of a union is that of the filter that the union makes. sigma is
// the standard deviation of linear counting in cells places of which a key takes k:
// sqrt(cells · (e^t - t - 1)) / k with t = n·k/cells (Whang, Vander-Zanden and Taylor 1990).
func checkCounts[F any, P counted[F]](t *testing.T, name string, make func() P, cells, k float64) {
	t.Helper()
	sigma := func(n float64) float64 {
		load := n * k / cells
		return math.Sqrt(cells*(math.Exp(load)-load-1)) / k
	}
	var sum [3]float64 // of the differences in sigmas, so that a bias shows
	const rounds = 12
	for round := range rounds {
		a, b := make(), make()
		for i := range 8000 {
			key := fmt.Appendf(nil, "%d-%d", round, i)
			if i < 6000 {
				must(a.Add(key), a.Add(key)) // a key that comes again is no other key
			}
			if i >= 4000 {
				must(b.Add(key))
			}
		}
		union, err1 := a.UnionCount((*F)(b))
		common, err2 := a.IntersectionCount((*F)(b))
		must(err1, err2)
		alone := a.EstimatedCount()
		// The errors of the three numbers of an intersection are correlated: their sum is
		// more than its error.
		spread := sigma(6000) + sigma(4000) + sigma(8000)
		for i, z := range []float64{(alone - 6000) / sigma(6000), (union - 8000) / sigma(8000), (common - 2000) / spread} {
			if sum[i] += z; math.Abs(z) > 3.5 {
				t.Errorf("%s, round %d: number %d is %+.1f sigma off: %.0f alone, %.0f in the union, %.0f in common", name, round, i, z, alone, union, common)
			}
		}
		must(a.Union((*F)(b)))
		if got := a.EstimatedCount(); math.Abs(got-union) > 1e-6*union {
			t.Errorf("%s: UnionCount was %v, and the union has %v", name, union, got)
		}
	}
	for i, z := range sum {
		if z /= math.Sqrt(rounds); math.Abs(z) > 3 {
			t.Errorf("%s: number %d is biased: %.1f sigma of all rounds", name, i, z)
		}
	}
	if _, err := make().UnionCount(new(F)); err == nil {
		t.Errorf("%s: UnionCount of a zero filter", name)
	}
	if _, err := make().IntersectionCount(new(F)); err == nil {
		t.Errorf("%s: IntersectionCount of a zero filter", name)
	}
	if err := make().Union(new(F)); err == nil {
		t.Errorf("%s: Union of a zero filter", name)
	}
	if n := make().EstimatedCount(); n != 0 {
		t.Errorf("%s: an empty filter has %v keys", name, n)
	}
	if n := P(new(F)).EstimatedCount(); !(n >= 0) {
		t.Errorf("%s: the zero filter has %v keys", name, n)
	}
}

func TestCounts_WithinThreeSigma(t *testing.T) {
	classic := bloom.New(10_000, 0.01)
	checkCounts(t, "Filter", func() *bloom.Filter { return bloom.New(10_000, 0.01) }, float64(classic.Cap()), float64(classic.K()))
	atomic := func() *bloom.AtomicBlocked {
		return get(bloom.NewAtomicBlocked(bloom.AtomicBlockedOptions{Keys: 10_000}))
	}
	checkCounts(t, "AtomicBlocked", atomic, 8*float64(atomic().SizeBytes()), 6)
	for _, width := range []float64{40, 80} { // six counters a key, and seven
		counting := func() *sketch.Counting {
			return get(sketch.NewCounting(sketch.CountingOptions{Keys: 10_000, BitsPerKey: width}))
		}
		checkCounts(t, "Counting", counting, float64(counting().Cap()), float64(counting().K()))
	}
}

// A filter whose bits are all set does not know how many keys it has, and what it has in
// common with another is at most what that one has.
func TestCounts_Full(t *testing.T) {
	full, some := bloom.New(10, 0.5), bloom.New(10, 0.5)
	for i := range 10_000 {
		must(full.AddString(fmt.Sprint(i)))
	}
	must(some.AddString("a"))
	if n := get(full.UnionCount(some)); !math.IsInf(n, 1) {
		t.Errorf("UnionCount = %v", n)
	}
	if n := get(full.IntersectionCount(some)); n != some.EstimatedCount() {
		t.Errorf("IntersectionCount = %v, of %v", n, some.EstimatedCount())
	}
}

// Sets of numbers are counted exactly.
func TestCounts_Bitset(t *testing.T) {
	var a, b sketch.Bitset
	for i := range uint64(300) {
		must(a.Set(2*i), b.Set(3*i))
	}
	// Multiples of 6 below 600 are in both.
	if got := a.IntersectionCount(&b); got != 100 {
		t.Errorf("IntersectionCount = %d, want 100", got)
	}
	if got := b.UnionCount(&a); got != 500 {
		t.Errorf("UnionCount = %d, want 500", got)
	}
	must(a.Union(&b))
	if a.Count() != 500 {
		t.Errorf("the union has %d", a.Count())
	}
}
