package bloom

import "math"

// PredictFPR returns the false positive rate of a filter that AppendBlocked
// makes of many keys with so many bits each: the share of absent keys that it
// lets pass. A filter of few keys has a lower one, because it has whole lines;
// Blocked.PredictedFPR knows those.
func PredictFPR(bitsPerKey float64) float64 {
	first, second := splitBits(bitsPerKey)
	p := manyKeysFPR(first)
	if second > 0 {
		p *= manyKeysFPR(second)
	}
	return p
}

// BitsForFPR returns the fewest bits a key, from MinBits to MaxBits, with which
// PredictFPR is p or less; MaxBits if there are none.
func BitsForFPR(p float64) float64 {
	low, high := MinBits, MaxBits
	if PredictFPR(low) <= p {
		return low
	}
	// PredictFPR(low) > p always; PredictFPR(high) <= p, or high is MaxBits.
	// PredictFPR falls everywhere, at 14 bits by a jump.
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

// manyKeysFPR is that of one unit with so many lines that a line's load has
// the Poisson distribution.
func manyKeysFPR(bits float64) float64 {
	const lines = 1 << 40
	return unitFPR(lines*lineBits/bits, lines, probesFor(bits))
}

// unitFPR returns the share of absent keys that one unit lets pass.
//
// A line that got i keys lets pass (1 - (1 - 1/512)^(k·i))^k of what is asked
// of it (Bloom 1970). i is binomial, keys balls into lines urns, and with many
// lines it is Poisson (Putze, Sanders and Singler 2007). Its probabilities are
// summed outward from the most probable i; each follows from its neighbour, and
// the sum of all normalizes them.
//
// Left out: even lines of equal load differ in the bits that their keys share,
// and rates are power means. That makes the real rate of a unit 1.002 times as
// high at 5 bits a key, 1.01 times at 10 and 1.02 times at 13.
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
	for i := mode; weight > negligible && i < keys; i++ { // to i + 1
		weight *= (keys - i) / (i + 1) * odds
		sum += weight * lineFPR(i+1, k)
		total += weight
	}
	weight = 1.0
	for i := mode; weight > negligible && i > 0; i-- { // to i - 1
		weight *= i / (keys - i + 1) / odds
		sum += weight * lineFPR(i-1, k)
		total += weight
	}
	return sum / total
}

// negligible is small beside the least rate of a unit, which is about 1e-3 at
// 13 bits a key.
const negligible = 1e-15

// logEmpty is the logarithm of the chance that a probe leaves a bit alone.
var logEmpty = math.Log1p(-1.0 / lineBits)

// lineFPR is the rate of a line with that many keys.
func lineFPR(keys float64, k uint32) float64 {
	set := -math.Expm1(keys * float64(k) * logEmpty)
	p := set
	for ; k > 1; k-- {
		p *= set
	}
	return p
}
