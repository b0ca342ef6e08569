package bloom_test

import (
	"errors"
	"fmt"
	"math"
	"testing"

	"github.com/shaledb/shale/bloom"
)

// A counted is a filter that estimates how many keys it has.
type counted[F any] interface {
	*F
	bloom.Adder
	EstimatedCount() float64
	Union(other *F) error
}

// Two filters share a part of their keys. The estimates of one and of their union are within
// three sigma of the true numbers. sigma is the standard deviation of linear counting in cells places of which a key takes k:
// sqrt(cells · (e^t - t - 1)) / k with t = n·k/cells (Whang, Vander-Zanden and Taylor 1990).
func checkCounts[F any, P counted[F]](t *testing.T, name string, make func() P, cells, k float64) {
	t.Helper()
	sigma := func(n float64) float64 {
		load := n * k / cells
		return math.Sqrt(cells*(math.Exp(load)-load-1)) / k
	}
	var sum [2]float64 // of the differences in sigmas, so that a bias shows
	const rounds = 40
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
		alone := a.EstimatedCount()
		must(a.Union((*F)(b)))
		union := a.EstimatedCount()
		for i, z := range []float64{(alone - 6000) / sigma(6000), (union - 8000) / sigma(8000)} {
			if sum[i] += z; math.Abs(z) > 3.5 {
				t.Errorf("%s, round %d: number %d is %+.1f sigma off: %.0f alone, %.0f in the union", name, round, i, z, alone, union)
			}
		}
	}
	for i, z := range sum {
		if z /= math.Sqrt(rounds); math.Abs(z) > 3 {
			t.Errorf("%s: number %d is biased: %.1f sigma of all rounds", name, i, z)
		}
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
		return get(bloom.NewAtomicBlocked(bloom.AtomicBlockedOptions{Keys: 2000}))
	}
	checkCounts(t, "AtomicBlocked", atomic, 8*float64(atomic().SizeBytes()), 6)
}

// A Filter estimates its union with another, and what it has in common with it, without
// changing. If all its bits are set it does not know how many keys it has, and what it has in
// common is at most what the other one has.
func TestCounts_TwoFilters(t *testing.T) {
	full, some, more := bloom.New(10, 0.5), bloom.New(10_000, 0.01), bloom.New(10_000, 0.01)
	for i := range 10_000 {
		must(full.AddString(fmt.Sprint(i)))
		if i < 6000 {
			must(some.AddString(fmt.Sprint(i)))
		}
		if i >= 4000 {
			must(more.AddString(fmt.Sprint(i)))
		}
	}
	union, common := get(some.UnionCount(more)), get(some.IntersectionCount(more))
	if want := some.EstimatedCount() + more.EstimatedCount() - union; math.Abs(common-want) > 1e-6 || math.Abs(common-2000) > 300 {
		t.Errorf("IntersectionCount = %v, want %v, about 2000", common, want)
	}
	must(some.Union(more))
	if got := some.EstimatedCount(); math.Abs(got-union) > 1e-6*union {
		t.Errorf("UnionCount was %v, and the union has %v", union, got)
	}
	little := bloom.New(10, 0.5)
	must(little.AddString("a"))
	if n := get(full.UnionCount(little)); !math.IsInf(n, 1) {
		t.Errorf("UnionCount = %v", n)
	}
	if n := get(full.IntersectionCount(little)); n != little.EstimatedCount() {
		t.Errorf("IntersectionCount = %v, of %v", n, little.EstimatedCount())
	}
	other := get(bloom.NewAtomicBlocked(bloom.AtomicBlockedOptions{Hasher: get(bloom.NewHasher(bloom.HashXXH3, 1))}))
	if err := get(bloom.NewAtomicBlocked(bloom.AtomicBlockedOptions{})).Union(other); !errors.Is(err, bloom.ErrMismatch) {
		t.Errorf("Union of filters with other hash functions: %v", err)
	}
	_, err1 := full.UnionCount(new(bloom.Filter))
	_, err2 := full.IntersectionCount(new(bloom.Filter))
	if err1 == nil || err2 == nil {
		t.Errorf("a zero filter is counted: %v, %v", err1, err2)
	}
}
