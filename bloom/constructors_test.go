package bloom_test

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/shaledb/shale/bloom"
	"github.com/shaledb/shale/bloom/internal/form"
	"github.com/shaledb/shale/bloom/sketch"
)

// A constructor makes the filter that it is asked for, or refuses with an error. A
// constructor without an error panics instead, with an error of this package. None makes
// another filter, and none lets the runtime panic.
func TestConstructors_RefuseWhatCannotBe(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	refusals := map[string]func() error{}
	fails := func(name string, make func() (any, error)) {
		refusals[name] = func() error {
			f, err := make()
			if err == nil {
				err = fmt.Errorf("it makes %v", f)
			}
			return err
		}
	}
	filter := func(name string, o bloom.FilterOptions) {
		fails("NewFilter "+name, func() (any, error) { return bloom.NewFilter(o) })
	}
	atomic := func(name string, o bloom.AtomicBlockedOptions) {
		fails("NewAtomicBlocked "+name, func() (any, error) { return bloom.NewAtomicBlocked(o) })
	}
	counting := func(name string, o sketch.CountingOptions) {
		fails("NewCounting "+name, func() (any, error) { return sketch.NewCounting(o) })
	}
	cuckoo := func(name string, o sketch.CuckooOptions) {
		fails("NewCuckoo "+name, func() (any, error) { return sketch.NewCuckoo(o) })
	}
	scalable := func(name string, o sketch.ScalableOptions) {
		fails("NewScalable "+name, func() (any, error) { return sketch.NewScalable(o) })
	}
	bitset := func(name string, limit uint64) {
		fails("NewBitset "+name, func() (any, error) { return sketch.NewBitset(sketch.BitsetOptions{Limit: limit}) })
	}
	exact := func(name string, set bloom.Set, bytes int) {
		fails("NewExact "+name, func() (any, error) { return sketch.NewExact(set, sketch.ExactOptions{Bytes: bytes}) })
	}

	for _, p := range []float64{nan, -1, 0, 1, 5, inf} {
		fails(fmt.Sprintf("New(1, %v)", p), func() (any, error) { return bloom.New(1, p), nil })
		if p != 0 {
			counting(fmt.Sprint("FPR ", p), sketch.CountingOptions{Keys: 1, FPR: p})
			scalable(fmt.Sprint("FPR ", p), sketch.ScalableOptions{FPR: p})
		}
	}
	for _, width := range []float64{nan, -1, inf, math.Inf(-1), 15.9, 256.1, 1e9} {
		counting(fmt.Sprint("BitsPerKey ", width), sketch.CountingOptions{Keys: 1, BitsPerKey: width})
		if !(width > 0 && width < inf) {
			atomic(fmt.Sprint("BitsPerKey ", width), bloom.AtomicBlockedOptions{Keys: 1, BitsPerKey: width})
		}
	}
	counting("of a low rate", sketch.CountingOptions{Keys: 1, FPR: 1e-9})
	counting("of both", sketch.CountingOptions{Keys: 1, FPR: 0.01, BitsPerKey: 40})
	for _, width := range []int{1, 13, -8, 64} {
		cuckoo(fmt.Sprint("FingerprintBits ", width), sketch.CuckooOptions{FingerprintBits: width})
	}
	scalable("Expansion -1", sketch.ScalableOptions{Expansion: -1})
	scalable("Expansion too large", sketch.ScalableOptions{Expansion: sketch.MaxExpansion + 1})
	scalable("HashID alone", sketch.ScalableOptions{HashID: 3})

	const many = 1 << 62 // keys that no machine has the memory for
	fails("New of many", func() (any, error) { return bloom.New(many, 0.01), nil })
	filter("of many", bloom.FilterOptions{Keys: many})
	filter("of bits", bloom.FilterOptions{Bits: math.MaxUint64})
	atomic("of many", bloom.AtomicBlockedOptions{Keys: many, BitsPerKey: 10})
	scalable("of many", sketch.ScalableOptions{Capacity: many})
	counting("of many", sketch.CountingOptions{Keys: many})
	counting("of most", sketch.CountingOptions{Keys: math.MaxUint64, FPR: 0.01})
	cuckoo("of many", sketch.CuckooOptions{Keys: many})
	cuckoo("of 2^40", sketch.CuckooOptions{Keys: 1 << 40})
	bitset("beyond MaxLimit", sketch.MaxLimit+1)
	bitset("of MaxUint64", math.MaxUint64)
	exact("of no filter", nil, 1000)
	exact("of negative size", bloom.New(1, 0.01), -1)
	if math.MaxInt > form.MaxBytes {
		exact("of too many bytes", bloom.New(1, 0.01), math.MaxInt)
	}
	if math.MaxInt == math.MaxInt32 {
		const most = 1 << 34 // bits, 2 GiB: more than an int counts bytes
		fails("New of 2 GiB", func() (any, error) { return bloom.New(most, 0.5), nil })
		filter("of 2 GiB", bloom.FilterOptions{Bits: most})
		filter("of 128 GiB", bloom.FilterOptions{Bits: 1 << 40})
		scalable("of 2 GiB", sketch.ScalableOptions{Capacity: most, FPR: 0.5})
		counting("of 2 GiB", sketch.CountingOptions{Keys: most, BitsPerKey: 16})
		bitset("of 2 GiB", most)
	}
	fails("NewHashFunc of both", func() (any, error) { return bloom.NewHashFunc(hasher(bloom.HashXXH3, 1), bloom.Murmur3, 0) })
	fails("Must of an error", func() (any, error) { return bloom.Must(bloom.NewHasher(99, 0)), nil })
	fails("NewHasher of an unknown id", func() (any, error) { return bloom.NewHasher(99, 0) })

	for name, refused := range refusals {
		if err := panicked(refused); err == nil || !strings.HasPrefix(err.Error(), "bloom: ") {
			t.Errorf("%s: %.100q, not an error of the package", name, fmt.Sprint(err))
		}
	}
}

// The test above has every constructor of both packages.
func TestConstructors_Listed(t *testing.T) {
	tested := get(os.ReadFile("constructors_test.go"))
	constructor := regexp.MustCompile(`(?m)^func (New\w*)`)
	found := 0
	for _, name := range append(get(filepath.Glob("*.go")), get(filepath.Glob("sketch/*.go"))...) {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		for _, m := range constructor.FindAllSubmatch(get(os.ReadFile(name)), -1) {
			found++
			if !regexp.MustCompile(`\b` + string(m[1]) + `\(`).Match(tested) {
				t.Errorf("%s is not tested here", m[1])
			}
		}
	}
	if found < 10 {
		t.Errorf("%d constructors", found)
	}
}

// panicked returns the error that f returns or panics with.
func panicked(f func() error) (err error) {
	defer func() {
		switch p := recover().(type) {
		case nil:
		case runtime.Error:
			err = fmt.Errorf("runtime: %w", p)
		case error:
			err = p
		default:
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	return f()
}

// A filter has the size that its constructor was asked for, at the smallest and
// at the largest numbers.
func TestConstructors_KeepTheirPromise(t *testing.T) {
	for _, width := range []float64{math.SmallestNonzeroFloat64, 0.5, 10, 64, 1000} {
		f := get(bloom.NewAtomicBlocked(bloom.AtomicBlockedOptions{Keys: 1000, BitsPerKey: width}))
		if got := float64(f.SizeBytes()) * 8; got < 1000*width || got > 1000*width+form.LineBits {
			t.Errorf("NewAtomicBlocked(1000, %v) has %v bits", width, got)
		}
	}
	if n := get(bloom.NewAtomicBlocked(bloom.AtomicBlockedOptions{})).SizeBytes(); n != form.LineBytes {
		t.Errorf("NewAtomicBlocked of no keys has %d bytes", n)
	}
}
