package sketch

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
)

// A constructor makes the filter that it is asked for, or refuses with an error. A
// constructor without an error panics instead, with an error of this package. None makes
// another filter, and none lets the runtime panic.
func TestConstructors_RefuseWhatCannotBe(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	refusals := map[string]func() error{}
	fails := func(name string, make func() error) { refusals[name] = make }

	for _, p := range []float64{nan, -1, 0, 1, 5, inf, 1e-9} {
		if p != 0 {
			fails(fmt.Sprintf("NewCounting FPR %v", p), func() error {
				_, err := NewCounting(CountingOptions{Keys: 1, FPR: p})
				return err
			})
		}
	}
	for _, width := range []float64{nan, -1, inf, 15.9, 256.1, 1e9} {
		fails(fmt.Sprintf("NewCounting BitsPerKey %v", width), func() error {
			_, err := NewCounting(CountingOptions{Keys: 1, BitsPerKey: width})
			return err
		})
	}

	const many = 1 << 62 // keys that no machine has the memory for
	fails("NewScalable of many", func() error { _, err := NewScalable(ScalableOptions{Capacity: many}); return err })
	fails("NewCounting of many", func() error { _, err := NewCounting(CountingOptions{Keys: many}); return err })
	fails("NewCuckoo of many", func() error { _, err := NewCuckoo(CuckooOptions{Keys: many}); return err })
	if math.MaxInt == math.MaxInt32 {
		const most = 1 << 34 // bits, 2 GiB: more than an int counts bytes
		fails("NewScalable of 2 GiB", func() error { _, err := NewScalable(ScalableOptions{Capacity: most, FPR: 0.5}); return err })
		fails("NewCounting of 2 GiB", func() error {
			_, err := NewCounting(CountingOptions{Keys: most, BitsPerKey: 16})
			return err
		})
		fails("NewBitset of 2 GiB", func() error { _, err := NewBitset(BitsetOptions{Limit: most}); return err })
	}

	fails("NewBitset beyond MaxLimit", func() error { _, err := NewBitset(BitsetOptions{Limit: MaxLimit + 1}); return err })
	fails("NewBitset of MaxUint64", func() error { _, err := NewBitset(BitsetOptions{Limit: math.MaxUint64}); return err })
	below := bloom.New(1, 0.01)
	fails("NewExact of no filter", func() error { _, err := NewExact(nil, ExactOptions{Bytes: 1000}); return err })
	fails("NewExact of negative size", func() error { _, err := NewExact(below, ExactOptions{Bytes: -1}); return err })
	if math.MaxInt > form.MaxBytes {
		fails("NewExact of too many bytes", func() error { _, err := NewExact(below, ExactOptions{Bytes: math.MaxInt}); return err })
	}

	for name, refused := range refusals {
		if err := panicked(refused); err == nil || !strings.HasPrefix(err.Error(), "bloom: ") {
			t.Errorf("%s: %.100q, not an error of the package", name, fmt.Sprint(err))
		}
	}
}

// The tests above have every constructor of the package.
func TestConstructors_Listed(t *testing.T) {
	tested, err := os.ReadFile("constructors_test.go")
	if err != nil {
		t.Fatal(err)
	}
	names, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	constructor := regexp.MustCompile(`(?m)^func (New\w*)`)
	found := 0
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range constructor.FindAllSubmatch(b, -1) {
			found++
			if !regexp.MustCompile(`\b` + string(m[1]) + `[(\[]`).Match(tested) {
				t.Errorf("%s is not tested here", m[1])
			}
		}
	}
	if found < 5 {
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
	for _, p := range []float64{0.999, 0.3, 0.01, 1e-4, 7.5e-6} {
		if f := countingFor(100_000, p); countingFPR(100_000, float64(len(f.lines)), f.k) > p {
			t.Errorf("NewCounting at %v lets pass %v", p, countingFPR(100_000, float64(len(f.lines)), f.k))
		}
	}
}
