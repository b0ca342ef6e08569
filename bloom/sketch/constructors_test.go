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
)

// foreign has an Add like that of bits-and-blooms, which NewOf does not know.
type foreign struct{}

func (*foreign) MayContain([]byte) bool { return true }
func (f *foreign) Add([]byte) *foreign  { return f }

// foreignRemove has a Remove that NewOf does not know.
type foreignRemove struct{}

func (foreignRemove) MayContain([]byte) bool { return true }
func (foreignRemove) Add([]byte)             {}
func (foreignRemove) Remove([]byte) error    { return nil }

// A constructor makes the filter that it is asked for, or refuses with an error. A
// constructor without an error panics instead, with an error of this package. None makes
// another filter, and none lets the runtime panic.
func TestConstructors_RefuseWhatCannotBe(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	funnel := func(v string, s *Sink) { s.String(v) }
	never := func(f any) error { return fmt.Errorf("it makes %v", f) }
	refusals := map[string]func() error{}
	panics := func(name string, make func() any) { refusals[name] = func() error { return never(make()) } }
	fails := func(name string, make func() error) { refusals[name] = make }

	for _, p := range []float64{nan, -1, 0, 1, 5, inf, 1e-9} {
		panics(fmt.Sprintf("NewCounting(1, %v)", p), func() any { return NewCounting(1, p) })
		if p != 0 {
			fails(fmt.Sprintf("NewCountingFor FPR %v", p), func() error {
				_, err := NewCountingFor(CountingOptions{Keys: 1, FPR: p})
				return err
			})
		}
	}
	for _, width := range []float64{nan, -1, inf, 15.9, 256.1, 1e9} {
		fails(fmt.Sprintf("NewCountingFor BitsPerKey %v", width), func() error {
			_, err := NewCountingFor(CountingOptions{Keys: 1, BitsPerKey: width})
			return err
		})
	}

	const many = 1 << 62 // keys that no machine has the memory for
	panics("NewCounting of many", func() any { return NewCounting(many, 0.01) })
	panics("NewCuckoo of many", func() any { return NewCuckoo(many) })
	fails("NewScalable of many", func() error { _, err := NewScalable(many, 0.01, ScalableOptions{}); return err })
	fails("NewCountingFor of many", func() error { _, err := NewCountingFor(CountingOptions{Keys: many}); return err })
	fails("NewWindow of many", func() error { _, err := NewWindow(WindowOptions{Keys: many}); return err })
	fails("NewCuckooFor of many", func() error { _, err := NewCuckooFor(CuckooOptions{Keys: many}); return err })
	if math.MaxInt == math.MaxInt32 {
		const most = 1 << 34 // bits, 2 GiB: more than an int counts bytes
		fails("NewScalable of 2 GiB", func() error { _, err := NewScalable(most, 0.5, ScalableOptions{}); return err })
		fails("NewCountingFor of 2 GiB", func() error {
			_, err := NewCountingFor(CountingOptions{Keys: most, BitsPerKey: 16})
			return err
		})
		panics("NewBitset of 2 GiB", func() any { return NewBitset(most) })
	}

	panics("NewBitset beyond MaxLimit", func() any { return NewBitset(MaxLimit + 1) })
	panics("NewBitset of MaxUint64", func() any { return NewBitset(math.MaxUint64) })
	panics("NewExact of no filter", func() any { return NewExact(nil, 1000) })
	panics("NewExact of negative size", func() any { return NewExact(bloom.New(1, 0.01), -1) })
	panics("NewExact of too many bytes", func() any { return NewExact(bloom.New(1, 0.01), math.MaxInt) })
	panics("NewOf of no filter", func() any { return NewOf(nil, funnel) })
	panics("NewOf without a funnel", func() any { return NewOf[string](bloom.New(1, 0.01), nil) })
	panics("NewOf of an unknown Add", func() any { return NewOf(&foreign{}, funnel) })
	panics("NewOf of an unknown Remove", func() any { return NewOf(foreignRemove{}, funnel) })

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
	if found < 6 {
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
		if f := NewCounting(100_000, p); countingFPR(100_000, float64(len(f.lines)), f.k) > p {
			t.Errorf("NewCounting at %v lets pass %v", p, countingFPR(100_000, float64(len(f.lines)), f.k))
		}
	}
}
