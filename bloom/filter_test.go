package bloom

import (
	"encoding"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"testing"

	"github.com/shaledb/shale/bloom/internal/filtertest"
	"github.com/shaledb/shale/bloom/internal/form"
	"github.com/shaledb/shale/internal/testenv"
)

var (
	_ encoding.BinaryMarshaler   = (*Filter)(nil)
	_ encoding.BinaryAppender    = (*Filter)(nil)
	_ encoding.BinaryUnmarshaler = (*Filter)(nil)
	_ io.WriterTo                = (*Filter)(nil)
	_ io.ReaderFrom              = (*Filter)(nil)
)

// filterOf makes a filter with n numbered keys, beginning with number first.
func filterOf(t testing.TB, o FilterOptions, first, n int) *Filter {
	t.Helper()
	f, err := NewFilter(o)
	if err != nil {
		t.Fatal(err)
	}
	for i := first; i < first+n; i++ {
		f.Add(filtertest.Numbered(i))
	}
	return f
}

// ownOptions have a hash function of the caller's own, whose id is not 0.
func ownOptions(id HashID) FilterOptions {
	hash := func(key []byte) (uint64, uint64) {
		h1, h2 := Murmur3(key)
		return h2, h1
	}
	return FilterOptions{Keys: 1000, Hash: hash, HashID: id}
}

// everyFilter has the options of filters of 1000 keys with all hash functions.
func everyFilter() []FilterOptions {
	var all []FilterOptions
	for _, h := range everyHasher() {
		all = append(all, FilterOptions{Keys: 1000, Hasher: h})
	}
	return append(all, FilterOptions{Keys: 1000, FPR: 1e-6}, FilterOptions{Bits: 1, Probes: 1}, ownOptions(200))
}

func TestNewFilter_Shapes(t *testing.T) {
	for _, c := range []struct {
		o FilterOptions
		m uint64
		k int
	}{
		{FilterOptions{Keys: 1}, 64, 7},
		{FilterOptions{Keys: 1000}, 9600, 7},
		{FilterOptions{Keys: 1000, FPR: 0.01}, 9600, 7},
		{FilterOptions{Keys: 1000, FPR: 0.001}, 14400, 10},
		{FilterOptions{Keys: 1000, FPR: 0.999}, 192, 1},
		{FilterOptions{Keys: 1000, FPR: 0.01, Probes: 3}, 12416, 3},
		{FilterOptions{Bits: 1000}, 1024, 7},
		{FilterOptions{Bits: 1000, FPR: 0.1}, 1024, 3},
		{FilterOptions{Bits: 1000, Keys: 100}, 1024, 7},
		{FilterOptions{Bits: 1000, Keys: 1}, 1024, MaxProbes},
		{FilterOptions{Bits: 1000, Keys: math.MaxUint64}, 1024, 1},
		{FilterOptions{Bits: 64, Probes: MaxProbes}, 64, MaxProbes},
	} {
		f, err := NewFilter(c.o)
		if err != nil {
			t.Errorf("%+v: %v", c.o, err)
			continue
		}
		if f.Cap() != c.m || f.K() != c.k || f.SizeBytes() != int(c.m/8) {
			t.Errorf("%+v: %d bits, %d probes, want %d, %d", c.o, f.Cap(), f.K(), c.m, c.k)
		}
	}
	for _, o := range []FilterOptions{
		{}, {FPR: 0.01}, {Probes: 3}, {Keys: 1, FPR: 1}, {Keys: 1, FPR: -0.5}, {Keys: 1, FPR: math.NaN()}, {Keys: 1, FPR: math.Inf(1)},
		{Keys: 1, Probes: -1}, {Keys: 1, Probes: MaxProbes + 1}, {Keys: math.MaxUint64}, {Bits: math.MaxUint64}, {Bits: maxFilterBits + 1},
		{Keys: 1, HashID: 200}, {Keys: 1, Hash: Murmur3, HashID: 1}, {Keys: 1, Hash: Murmur3, Hasher: hasherOf(HashXXH3, 1)},
	} {
		if f, err := NewFilter(o); err == nil || f != nil {
			t.Errorf("NewFilter(%+v) = %v, %v, want an error", o, f, err)
		}
	}
}

func TestFilter_Estimates(t *testing.T) {
	f := filterOf(t, FilterOptions{Keys: 20_000}, 0, 20_000)
	for i := range 5000 {
		f.Add(filtertest.Numbered(i)) // again: Count sees it, the bits do not
	}
	if f.Count() != 25_000 || math.Abs(f.EstimatedCount()/20_000-1) > 0.02 {
		t.Errorf("Count() = %d, EstimatedCount() = %v", f.Count(), f.EstimatedCount())
	}
	if fill := f.FillRatio(); math.Abs(fill-0.5) > 0.02 || math.Abs(f.FPR()-math.Pow(fill, 7)) > 1e-12 {
		t.Errorf("FillRatio() = %v, FPR() = %v", fill, f.FPR())
	}
	if want := SizeFill(f.Cap(), 7, 25_000); f.EstimatedFillRatio() != want {
		t.Errorf("EstimatedFillRatio() = %v, want %v", f.EstimatedFillRatio(), want)
	}
	for i := range f.bits.Words {
		f.bits.Words[i] = math.MaxUint64
	}
	if !math.IsInf(f.EstimatedCount(), 1) || f.FPR() != 1 {
		t.Errorf("full: EstimatedCount() = %v, FPR() = %v", f.EstimatedCount(), f.FPR())
	}
}

func TestFilter_Union(t *testing.T) {
	for _, o := range everyFilter() {
		f, g := filterOf(t, o, 0, 600), filterOf(t, o, 400, 600)
		both := filterOf(t, o, 0, 1000)
		if err := f.Union(g); err != nil {
			t.Fatal(err)
		}
		if f.Count() != 1200 || f.bits.Ones() != both.bits.Ones() {
			t.Errorf("Count() = %d, %d bits set, want 1200, %d", f.Count(), f.bits.Ones(), both.bits.Ones())
		}
		filtertest.CheckHas(t, f, 0, 1000)
	}
}

func TestFilter_Intersect(t *testing.T) {
	o := FilterOptions{Keys: 10_000, FPR: 1e-4}
	f, g := filterOf(t, o, 0, 6000), filterOf(t, o, 4000, 6000)
	c := f.Clone()
	if err := f.Intersect(g); err != nil {
		t.Fatal(err)
	}
	filtertest.CheckHas(t, f, 4000, 2000)
	if n := filtertest.FalsePositives(f, 20_000); n > 8 {
		t.Errorf("%d of 20000 absent keys pass", n)
	}
	if f.Count() < 2000 || f.Count() > 6000 || f.Count() != form.Whole(math.Round(f.EstimatedCount())) {
		t.Errorf("Count() = %d, EstimatedCount() = %v", f.Count(), f.EstimatedCount())
	}
	filtertest.CheckHas(t, c, 0, 6000) // a clone does not feel it
}

func TestFilter_Mismatch(t *testing.T) {
	f := New(1000, 0.01)
	own, other := filterOf(t, ownOptions(200), 0, 10), filterOf(t, ownOptions(201), 0, 10)
	nameless, alike := filterOf(t, ownOptions(0), 0, 10), filterOf(t, ownOptions(0), 0, 10)
	for i, pair := range [][2]*Filter{
		{f, New(2000, 0.01)},
		{f, filterOf(t, FilterOptions{Bits: f.Cap(), Probes: 6}, 0, 1)},
		{f, filterOf(t, FilterOptions{Keys: 1000, Hasher: hasherOf(HashXXH3, 0)}, 0, 1)},
		{filterOf(t, FilterOptions{Keys: 1000, Hasher: hasherOf(HashXXH3, 1)}, 0, 1), filterOf(t, FilterOptions{Keys: 1000, Hasher: hasherOf(HashXXH3, 0)}, 0, 1)},
		{f, own}, {own, f}, {own, other}, {nameless, alike}, {nameless, own}, {&Filter{}, &Filter{}},
	} {
		before := pair[0].Clone()
		for name, err := range map[string]error{"Union": pair[0].Union(pair[1]), "Intersect": pair[0].Intersect(pair[1])} {
			if !errors.Is(err, ErrMismatch) {
				t.Errorf("pair %d: %s = %v, want ErrMismatch", i, name, err)
			}
		}
		if pair[0].bits.Count != before.bits.Count || pair[0].bits.Ones() != before.bits.Ones() {
			t.Errorf("pair %d: changed", i)
		}
	}
	if err := nameless.Union(nameless.Clone()); err != nil {
		t.Errorf("Union of a clone: %v", err)
	}
	if err := own.Union(filterOf(t, ownOptions(200), 10, 10)); err != nil {
		t.Errorf("Union of the same id: %v", err)
	}
	filtertest.CheckHas(t, own, 0, 20)
}

// Adding and asking allocate nothing, also for keys that the caller has made on the stack.
func TestFilter_AllocatesNothing(t *testing.T) {
	if testenv.Race {
		t.Skip("the race detector allocates")
	}
	number := uint64(0)
	next := func() uint64 { number++; return number }
	for _, o := range everyFilter() {
		f := filterOf(t, o, 0, 100)
		name := fmt.Sprintf("hash %v, ", f.hash.ID())
		long := fmt.Sprint("a string that is longer than what the compiler keeps on the stack ", number)
		filtertest.CountAllocs(t, name+"Add", func() { var b [16]byte; filtertest.Digits(b[:], next()); f.Add(b[:]) })
		filtertest.CountAllocs(t, name+"MayContain", func() { var b [16]byte; filtertest.Digits(b[:], next()); f.MayContain(b[:]) })
		filtertest.CountAllocs(t, name+"CheckAndAdd", func() { var b [16]byte; filtertest.Digits(b[:], next()); f.CheckAndAdd(b[:]) })
		filtertest.CountAllocs(t, name+"AddString", func() { f.AddString(long) })
		filtertest.CountAllocs(t, name+"CheckString", func() { f.MayContainString(long) })
	}
}

// A filter of set bits stands for the set of all keys.
func TestFilter_AllBitsAreTheUniverse(t *testing.T) {
	some, all := New(100, 0.01), New(100, 0.01)
	for i := range 100 {
		some.Add([]byte{byte(i)})
	}
	for i := range all.bits.Words {
		all.bits.Words[i] = math.MaxUint64
	}
	union, both := all.Clone(), all.Clone()
	if err := errors.Join(union.Union(some), both.Intersect(some)); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(union.bits.Words, all.bits.Words) || !slices.Equal(both.bits.Words, some.bits.Words) {
		t.Error("the union is not all keys, or the intersection not those of the other")
	}
	if !all.MayContainString("anything") || all.FPR() != 1 || all.FillRatio() != 1 {
		t.Errorf("rate %v, fill %v", all.FPR(), all.FillRatio())
	}
}
