package bloom

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/shaledb/shale/bloom/internal/filtertest"
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
