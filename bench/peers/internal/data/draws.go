package data

import (
	"math"
	"math/bits"

	"github.com/shaledb/shale/bench/peers/internal/keys"
)

// A Random is a splitmix64 generator.
type Random struct{ state uint64 }

// NewRandom returns the generator of a seed.
func NewRandom(seed uint64) *Random {
	r := Apart[Random]()
	r.state = keys.Mix(seed*0x9e3779b97f4a7c15 + 1)
	return r
}

// Uint64 is the next number.
func (r *Random) Uint64() uint64 {
	r.state += 0x9e3779b97f4a7c15
	return keys.Mix(r.state)
}

// Below is a number in [0, n), evenly drawn.
func (r *Random) Below(n uint64) uint64 {
	high, _ := bits.Mul64(r.Uint64(), n)
	return high
}

// below one
func (r *Random) float() float64 { return float64(r.Uint64()>>11) / (1 << 53) }

// A Zipf draws numbers below n, k with a probability that falls with
// (k+1)^-0.99, as YCSB does: the method of Gray and others, "Quickly generating
// billion-record synthetic databases".
type Zipf struct {
	n                  float64
	zeta, eta, twoThan float64
}

const theta = 0.99

// NewZipf returns the distribution over n numbers.
func NewZipf(n uint64) *Zipf {
	z := &Zipf{n: float64(n), zeta: zeta(n), twoThan: 1 + math.Pow(0.5, theta)}
	z.eta = (1 - math.Pow(2/z.n, 1-theta)) / (1 - zeta(2)/z.zeta)
	return z
}

// zeta is the sum of k^-theta for k up to n. Of a long sum the rest comes from
// the formula of Euler and Maclaurin.
func zeta(n uint64) float64 {
	const exact = 10_000
	sum := 0.0
	for k := uint64(1); k <= min(n, exact); k++ {
		sum += math.Pow(float64(k), -theta)
	}
	if n > exact {
		integral := func(x float64) float64 { return math.Pow(x, 1-theta) / (1 - theta) }
		term := func(x float64) float64 { return math.Pow(x, -theta) }
		sum += integral(float64(n)) - integral(exact) + (term(float64(n))-term(exact))/2
	}
	return sum
}

// Draw is the next number: small ones are frequent.
func (z *Zipf) Draw(r *Random) uint64 {
	u := r.float()
	uz := u * z.zeta
	if uz < 1 {
		return 0
	}
	if uz < z.twoThan {
		return 1
	}
	return min(uint64(z.n*hundredth(z.eta*u-z.eta+1)), uint64(z.n)-1)
}

// hundredth is x to the power of 1/(1-theta) = 100.
func hundredth(x float64) float64 {
	x4 := x * x * x * x
	x8 := x4 * x4
	x32 := x8 * x8 * x8 * x8
	return x32 * x32 * x32 * x4
}

// Scramble scatters what is drawn over the numbers below n, as YCSB does: two
// of them may fall together.
func Scramble(draw, n uint64) uint64 { return keys.Mix(draw+0x9e3779b97f4a7c15) % n }
