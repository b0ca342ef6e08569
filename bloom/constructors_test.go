package bloom

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
)

// A constructor makes the filter that it is asked for, or refuses with an error. A
// constructor without an error panics instead, with an error of this package. None makes
// another filter, and none lets the runtime panic.
func TestConstructors_RefuseWhatCannotBe(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	never := func(f any) error { return fmt.Errorf("it makes %v", f) }
	refusals := map[string]func() error{}
	panics := func(name string, make func() any) { refusals[name] = func() error { return never(make()) } }
	fails := func(name string, make func() error) { refusals[name] = make }

	for _, p := range []float64{nan, -1, 0, 1, 5, inf} {
		panics(fmt.Sprintf("New(1, %v)", p), func() any { return New(1, p) })
	}
	for _, width := range []float64{nan, -1, inf, math.Inf(-1)} {
		fails(fmt.Sprintf("NewAtomicBlocked BitsPerKey %v", width), func() error {
			_, err := NewAtomicBlocked(AtomicBlockedOptions{Keys: 1, BitsPerKey: width})
			return err
		})
	}

	const many = 1 << 62 // keys that no machine has the memory for
	panics("New of many", func() any { return New(many, 0.01) })
	fails("NewFilter of many", func() error { _, err := NewFilter(FilterOptions{Keys: many}); return err })
	fails("NewFilter of bits", func() error { _, err := NewFilter(FilterOptions{Bits: math.MaxUint64}); return err })
	fails("NewAtomicBlocked of many", func() error {
		_, err := NewAtomicBlocked(AtomicBlockedOptions{Keys: many, BitsPerKey: 10})
		return err
	})
	if math.MaxInt == math.MaxInt32 {
		const most = 1 << 34 // bits, 2 GiB: more than an int counts bytes
		panics("New of 2 GiB", func() any { return New(most, 0.5) })
		fails("NewFilter of 2 GiB", func() error { _, err := NewFilter(FilterOptions{Bits: most}); return err })
		fails("NewFilter of 128 GiB", func() error { _, err := NewFilter(FilterOptions{Bits: 1 << 40}); return err })
	}

	fails("NewHashFunc of both", func() error { _, err := NewHashFunc(hasherOf(HashXXH3, 1), Murmur3, 0); return err })
	fails("Must of an error", func() error { return never(Must(NewHasher(99, 0))) })
	fails("NewHasher of an unknown id", func() error { _, err := NewHasher(99, 0); return err })

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
	for _, width := range []float64{math.SmallestNonzeroFloat64, 0.5, 10, 64, 1000} {
		f := atomicOf(1000, width)
		if got := float64(f.SizeBytes()) * 8; got < 1000*width || got > 1000*width+lineBits {
			t.Errorf("NewAtomicBlocked(1000, %v) has %v bits", width, got)
		}
	}
	if n := atomicOf(0, 10).SizeBytes(); n != lineBytes {
		t.Errorf("NewAtomicBlocked of no keys has %d bytes", n)
	}
}
