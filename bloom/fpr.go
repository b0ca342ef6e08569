package bloom

import "math"

// PredictFPR returns the false positive rate of a filter that [AppendBlocked] makes
// of many keys with bitsPerKey bits each: the share of absent keys that pass. A
// filter of few keys has a lower rate, because it has whole lines;
// [Blocked.FPR] takes that into account.
func PredictFPR(bitsPerKey float64) float64 {
	first, second := splitBits(bitsPerKey)
	p := manyKeysFPR(first)
	if second > 0 {
		p *= manyKeysFPR(second)
	}
	return p
}

// BitsForFPR returns the fewest bits a key, from [MinBits] to [MaxBits], with which [PredictFPR]
// is p or less. It returns MaxBits if there are none.
func BitsForFPR(p float64) float64 {
	low, high := MinBits, MaxBits
	if PredictFPR(low) <= p {
		return low
	}
	// Bisection. PredictFPR(low) is always above p. PredictFPR(high) is at most p,
	// or high is MaxBits. PredictFPR falls everywhere; at 14 bits, where the
	// second unit begins, it jumps down.
	for high-low > 1e-9 {
		mid := (low + high) / 2
		if PredictFPR(mid) <= p {
			high = mid
		} else {
			low = mid
		}
	}
	return high
}

// manyKeysFPR returns the rate of one unit with very many lines. The number of keys in a
// line then has the Poisson distribution.
func manyKeysFPR(bits float64) float64 {
	const lines = 1 << 40
	return unitFPR(lines*lineBits/bits, lines, probesFor(bits))
}

// unitFPR returns the share of absent keys that pass one unit.
//
// A line with i keys lets pass (1 - (1 - 1/512)^(k·i))^k of the absent keys that are asked
// of it (Bloom 1970). The number i is binomial, as for keys balls in lines urns. With many
// lines it is Poisson (Putze, Sanders and Singler 2007). The sum over i begins with the
// most probable number and goes outward in both directions. Each probability is computed
// from its neighbour, and at the end all are divided by their sum.
//
// One effect is left out. Lines with the same number of keys differ in how many bits
// those keys have in common, and the mean of the rates is above the rate of the
// mean. So the real rate of a unit is 1.002 times as high at 5 bits a key, 1.01
// times at 10 and 1.02 times at 13.
func unitFPR(keys, lines float64, k uint32) float64 {
	mean := keys / lines
	if mean > 8*lineBits {
		return 1 // every bit is set
	}
	if lines <= 1 {
		return lineFPR(keys, k)
	}
	odds := 1 / (lines - 1)
	mode := math.Floor(mean)
	sum, total := lineFPR(mode, k), 1.0
	weight := 1.0
	for i := mode; weight > negligible && i < keys; i++ { // from i to i + 1
		weight *= (keys - i) / (i + 1) * odds
		sum += weight * lineFPR(i+1, k)
		total += weight
	}
	weight = 1.0
	for i := mode; weight > negligible && i > 0; i-- { // from i to i - 1
		weight *= i / (keys - i + 1) / odds
		sum += weight * lineFPR(i-1, k)
		total += weight
	}
	return min(sum/total, 1) // rounding may go beyond: processors that multiply and add in one step round otherwise
}

// negligible is small compared with the lowest rate of a unit, which is about
// 1e-3 at 13 bits a key.
const negligible = 1e-15

// logEmpty is the logarithm of the probability that a probe does not set a
// certain bit of its line.
var logEmpty = math.Log1p(-1.0 / lineBits)

// lineFPR returns the share of absent keys that pass a line with keys keys and k probes.
func lineFPR(keys float64, k uint32) float64 {
	set := -math.Expm1(keys * float64(k) * logEmpty)
	p := set
	for ; k > 1; k-- {
		p *= set
	}
	return p
}
