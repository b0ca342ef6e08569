package peertest

import (
	"encoding/binary"
	"math"
	"strconv"
	"testing"
	"time"

	"github.com/shaledb/shale/internal/testenv"
)

// A Filter is what a rate is measured of.
type Filter struct {
	Add        func(key []byte) error
	MayContain func(key []byte) bool
}

// A Rate says how to measure false positive rates.
type Rate struct {
	// Make returns an empty filter for n keys.
	Make func(n int) Filter
	// Theory is the share of absent keys that a filter of n keys lets pass.
	Theory func(n int) float64
	// Most is the largest n that is measured, if not 0.
	Most int
	// Small is how many times the theory is still right for less than 100 keys:
	// double hashing in small filters is worse than theory. Not less than 1.
	Small float64
}

// Measure compares what filters let pass with theory: within 5 % or within four
// standard deviations, whichever is more. It is brief but with SHALE_LONG.
func (r Rate) Measure(t *testing.T) {
	t.Helper()
	sizes, asked, inserted, seed := []int{100, 1000, 20_000}, 100_000, 20_000, uint64(1)
	switch {
	case testenv.Long(t) > 0:
		sizes, asked, seed = []int{10, 100, 1000, 10_000, 100_000, 1_000_000, 10_000_000}, 10_000_000, testenv.Seed(t)
	case testenv.Race || testing.Short():
		sizes, asked, inserted = []int{100, 1000}, 10_000, 5000
	}
	for _, kind := range []string{"random", "decimal"} {
		for _, n := range sizes {
			if r.Most == 0 || n <= r.Most {
				r.measure(t, kind, n, inserted, asked, seed)
			}
		}
	}
}

func (r Rate) measure(t *testing.T, kind string, n, inserted, asked int, seed uint64) {
	t.Helper()
	begin := time.Now()
	// One small filter tells little: its bits have a chance of their own.
	filters := max(1, inserted/n)
	each := max(1, asked/filters)
	passed := 0
	var buf []byte
	for i := range filters {
		f := r.Make(n)
		from := seed + uint64(i)<<40
		for j := range uint64(n) {
			buf = appendKey(buf[:0], kind, from, 2*j)
			if err := f.Add(buf); err != nil {
				t.Fatal(err)
			}
		}
		for j := range uint64(each) {
			buf = appendKey(buf[:0], kind, from, 2*j+1)
			if f.MayContain(buf) {
				passed++
			}
		}
	}
	theory := r.Theory(n)
	expected := theory * float64(each*filters)
	// The chance of the questions, and that of the bits: some 4 % of the rate in
	// a filter of 1000 keys at 1 %.
	spread := math.Sqrt(1/expected + 1.6/float64(n*filters))
	ratio := float64(passed) / expected
	t.Logf("%-8s n %8d, %4d filters, %8d asked: %8d passed, %.5f %%, theory %.5f %%, ratio %.4f, %5.1f sigma, %.1f s",
		kind, n, filters, each*filters, passed, 100*float64(passed)/float64(each*filters), 100*theory, ratio, (ratio-1)/spread, time.Since(begin).Seconds())
	low, high := 1-max(0.05, 4*spread), 1+max(0.05, 4*spread)
	switch {
	case n < 100:
		high *= r.Small
	case n < 1000:
		high *= min(r.Small, 1.15)
	}
	if ratio < low || ratio > high {
		t.Errorf("%s, n %d: %.4f times the rate of theory, want between %.4f and %.4f", kind, n, ratio, low, high)
	}
}

// appendKey appends key number i of a kind.
func appendKey(b []byte, kind string, from, i uint64) []byte {
	if kind == "decimal" {
		return strconv.AppendUint(append(b, "user"...), 1e15+from%1e6*1e9+i, 10)
	}
	h := from + i*0x9e3779b97f4a7c15
	h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
	h = (h ^ h>>27) * 0x94d049bb133111eb
	return binary.BigEndian.AppendUint64(b, h^h>>31)
}

// Classic is the rate of a filter of m bits and k probes with n keys.
func Classic(m, k, n float64) float64 {
	return math.Pow(-math.Expm1(k*n*math.Log1p(-1/m)), k)
}

// Blocks is the rate of n keys in z blocks, of which each key meets one, whose own
// rate with j keys is given.
func Blocks(n, z float64, given func(j int) float64) float64 {
	if z == 1 {
		return given(int(n))
	}
	// The keys of a block are of a binomial distribution.
	p, sum := math.Exp(n*math.Log1p(-1/z)), 0.0
	for j := 0.0; j <= n; j++ {
		sum += p * given(int(j))
		if p *= (n - j) / (j + 1) / (z - 1); j > n/z && p < 1e-18 {
			break
		}
	}
	return sum
}
