package filtertest

import (
	"math"
	"os"
	"testing"

	"github.com/shaledb/shale/internal/testenv"
)

// Seed returns the seed of a test of rates: the same one each time, so that the test cannot
// fail by chance. With SHALE_LONG it is another one each time, and with SHALE_SEED that one.
func Seed(t *testing.T) (seed uint64, long bool) {
	t.Helper()
	long = testenv.Long(t) > 0
	if long || os.Getenv("SHALE_SEED") != "" {
		return testenv.Seed(t), long
	}
	return 1, false
}

// ExactFPR is the expected rate of a filter with n keys if all probes are independent.
// Bloom's formula (bloom.SizeFPR) holds for many keys. With few keys the number of bits that
// are set varies, and the rate is a power of it (Bose et al. 2008).
func ExactFPR(m uint64, k int, n uint64) float64 {
	size, throws := float64(m), float64(n)*float64(k)
	if throws*size > 2e7 {
		return LargeFPR(size, throws, float64(k))
	}
	// chance[x] is the probability that x bits are set after the throws so far.
	chance := make([]float64, min(m, n*uint64(k))+1)
	chance[0] = 1
	for range int(throws) {
		for x := len(chance) - 1; x > 0; x-- {
			chance[x] = chance[x]*float64(x)/size + chance[x-1]*(size-float64(x-1))/size
		}
		chance[0] = 0
	}
	rate := 0.0
	for x, p := range chance {
		rate += p * math.Pow(float64(x)/size, float64(k))
	}
	return rate
}

// LargeFPR is ExactFPR to second order.
func LargeFPR(m, throws, k float64) float64 {
	none := math.Exp(throws * math.Log1p(-1/m))
	two := math.Exp(throws * math.Log1p(-2/m))
	fill := 1 - none
	variance := (none - two) / m // of the fill
	variance += two - none*none
	return math.Pow(fill, k) + k*(k-1)/2*math.Pow(fill, k-2)*variance
}
