package redisbloom

import (
	"math"
	"math/big"
)

// logPrecision is how many bits logarithms are computed with. A result has half as many.
const logPrecision = 2 * 53

// logOf returns the natural logarithm of x, correctly rounded. So does the library of C under Redis, but for
// one x in a thousand. math.Log is off by one in the last bit for one x in thirty, 0.01 among them, and for
// others on each processor; that shows in the header of a filter. Requires: 0 < x.
func logOf(x float64) float64 {
	fraction, exponent := math.Frexp(x)
	twos := logSeries(2)
	twos.Mul(twos, big.NewFloat(float64(exponent)))
	log, _ := twos.Add(twos, logSeries(fraction)).Float64()
	return log
}

// logSeries returns log(x) = 2(s + s³/3 + s⁵/5 + …), where s is (x-1)/(x+1). Requires: 1/2 <= x <= 2,
// so that each power is at most a ninth of the one before.
func logSeries(x float64) *big.Float {
	number := func(v float64) *big.Float { return new(big.Float).SetPrec(logPrecision).SetFloat64(v) }
	power := number(x - 1)
	power.Quo(power, number(1).Add(number(1), number(x)))
	square, sum := number(0).Mul(power, power), number(0)
	for k := 1; k < 2*logPrecision/3; k += 2 {
		sum.Add(sum, number(0).Quo(power, number(float64(k))))
		power.Mul(power, square)
	}
	return sum.Mul(sum, number(2))
}
