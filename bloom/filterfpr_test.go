package bloom

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/shaledb/shale/bloom/internal/filtertest"
	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/internal/testkeys"
)

// An fprCell is a rate that was measured.
type fprCell struct {
	name           string
	f              *Filter
	n              uint64
	asked, passed  uint64
	expected       float64
	took           time.Duration
	sigmas, excess float64
}

func (c *fprCell) judge(t *testing.T) string {
	mean := c.expected * float64(c.asked)
	got := float64(c.passed)
	c.sigmas = 2 * (math.Sqrt(got+3./8) - math.Sqrt(mean+3./8))
	c.excess = 100 * (got/mean - 1)
	line := fmt.Sprintf("%-26s %8d keys %10d bits %2d probes %11d asked: %9d pass, %.4g expected, %+6.2f %%, %5.2f sigma; classic formula %.4g %%; %v",
		c.name, c.n, c.f.Cap(), c.f.K(), c.asked, c.passed, mean, c.excess, c.sigmas, 100*SizeFPR(c.f.Cap(), c.f.K(), c.n), c.took.Round(time.Millisecond))
	far := 5.0
	if c.n < 10 {
		far = 80 // of some 1e-7
	}
	if math.Abs(c.excess) > far && math.Abs(c.sigmas) > 4 {
		t.Errorf("the rate is not that of theory:\n%s", line)
	}
	return line
}

// With random hashes, filters of any size, from one key up, and of any rate let pass what
// theory says. Plain double hashing (plainFPR) is wrong by orders of magnitude.
func TestFilterFPR_RandomHashes(t *testing.T) {
	seed, long := filtertest.Seed(t)
	budget := uint64(1_500_000)
	if long {
		budget = 1_000_000_000
	} else if filtertest.Short() {
		budget = 60_000
	}
	r := rand.New(rand.NewPCG(seed, 3))
	var table []string
	for _, n := range []uint64{1, 2, 10, 100, 1000} {
		for _, p := range []float64{0.3, 1e-2, 1e-4, 1e-6} {
			f := New(n, p)
			c := fprCell{name: fmt.Sprintf("random, for %v", p), f: f, n: n, expected: filtertest.ExactFPR(f.bits.M, f.bits.K, n)}
			if c.asked = budget; float64(budget)*c.expected > 40_000 && budget > 2e6 {
				c.asked = uint64(40_000 / c.expected)
			}
			begin := time.Now()
			// There are enough questions to each set of bits that building them
			// costs no more than asking.
			const each = 20
			for asked := uint64(0); asked < c.asked; asked += each * n {
				f.Reset()
				for range n {
					f.AddHash(r.Uint64(), r.Uint64())
				}
				for range each * n {
					if f.MayContainHash(r.Uint64(), r.Uint64()) {
						c.passed++
					}
				}
			}
			c.asked = (c.asked + each*n - 1) / (each * n) * each * n
			c.took = time.Since(begin)
			table = append(table, c.judge(t))
		}
	}
	t.Logf("\n%s", strings.Join(table, "\n"))
}

// Keys of every kind, in filters of every hash function and of many sizes. The answers are
// compared with the bits that are set, and the bits with theory.
func TestFilterFPR_EveryKind(t *testing.T) {
	testenv.SkipRace(t)
	seed, long := filtertest.Seed(t)
	n, asked := 2000, 12_000
	if long {
		n, asked = 50_000, 1_000_000
	} else if filtertest.Short() {
		n, asked = 50, 200
	}
	table, sum, cells := []string{}, map[string]float64{}, map[string]float64{}
	for i, kind := range append(testkeys.Made(), testkeys.Listed(t)...) {
		present, absent := kind.Make(seed+uint64(i), n, asked)
		for _, h := range []Hasher{{}, hasherOf(HashXXH3, seed), hasherOf(HashSipHash, seed)} {
			for _, p := range []float64{0.1, 0.01, 0.001} {
				f, err := NewFilter(FilterOptions{Keys: uint64(len(present)), FPR: p, Hasher: h})
				if err != nil {
					t.Fatal(err)
				}
				begin := time.Now()
				c := fprCell{name: kind.Name, f: f, n: uint64(len(present)), asked: uint64(len(absent))}
				for _, key := range present {
					f.Add(key)
				}
				for _, key := range absent {
					if f.MayContain(key) {
						c.passed++
					}
				}
				for _, key := range present {
					if !f.MayContain(key) {
						t.Fatalf("%s: %q is denied", kind.Name, key)
					}
				}
				c.took, c.expected = time.Since(begin), f.FPR()
				table = append(table, c.judge(t))
				checkFill(t, kind.Name, f)
				for _, of := range []string{kind.Name, h.ID().String(), "all"} {
					sum[of] += c.sigmas
					cells[of]++
				}
			}
		}
	}
	for of, s := range sum {
		if z := s / math.Sqrt(cells[of]); math.Abs(z) > 5 {
			t.Errorf("%s: all cells together are %.1f sigmas off", of, z)
		}
	}
	if long || os.Getenv("SHALE_SEED") != "" {
		t.Logf("\n%s", strings.Join(table, "\n"))
	}
	t.Logf("%d cells, together %.2f sigma", len(table), sum["all"]/math.Sqrt(cells["all"]))
}

// checkFill compares the number of bits that are set with theory, which knows its variance.
func checkFill(t *testing.T, name string, f *Filter) {
	t.Helper()
	m, throws := float64(f.bits.M), float64(f.bits.Count)*float64(f.bits.K)
	none, two := math.Exp(throws*math.Log1p(-1/m)), math.Exp(throws*math.Log1p(-2/m))
	spread := math.Sqrt(m * ((none - two) + m*(two-none*none)))
	if z := (float64(f.bits.Ones()) - m*(1-none)) / max(spread, 1); math.Abs(z) > 5 {
		t.Errorf("%s: %d bits of %d are set, expected %.0f ± %.1f", name, f.bits.Ones(), f.bits.M, m*(1-none), spread)
	}
}
