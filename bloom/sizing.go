package bloom

import "math"

// The five sizes of a classic Bloom filter: m bits, k probes a key, n keys, the
// rate p of false positives, and bits a key, m/n. Each function has two or three
// of them and gives another, by the formulas of Bloom (1970) and of Broder and
// Mitzenmacher (2004), which hold for many keys. Filters of some tens of keys have
// a few per cent more false positives than that: see Filter.
//
// None of them panics or gives NaN, whatever it is given: no keys count as one, no
// bits and no probes as one too, a rate of 0 or less as 2^-1022,
// one of 1 or more as the greatest below it, NaN as DefaultFPR. Results that are too large
// are the largest there are.

// DefaultFPR is the false positive rate of a filter that is asked for none.
const DefaultFPR = 0.01

// SizeBits returns the bits of a filter of n keys at the rate p with the best
// number of probes:
//
//	m = ⌈-n · ln p / (ln 2)²⌉     9.585 a key for 1 %, 14.378 for 0.1 %
//
// That number is a fraction; the nearest whole one needs up to 0.1 % more bits at
// 1 %, 0.6 % at 10 %: see SizeBitsProbes.
func SizeBits(n uint64, p float64) (m uint64) {
	return wholeUp(-float64(max(n, 1)) * math.Log(rateOf(p)) / (math.Ln2 * math.Ln2))
}

// SizeBitsProbes returns the bits of a filter of n keys at the rate p with k
// probes:
//
//	m = ⌈-k · n / ln(1 - p^(1/k))⌉
func SizeBitsProbes(n uint64, p float64, k int) (m uint64) {
	probes := float64(max(k, 1))
	return wholeUp(-probes * float64(max(n, 1)) / logNone(p, probes))
}

// SizeProbes returns the best number of probes for n keys in m bits:
//
//	k = round(m/n · ln 2), at least 1
func SizeProbes(m, n uint64) (k int) {
	return probesOf(float64(max(m, 1)) / float64(max(n, 1)) * math.Ln2)
}

// SizeProbesFPR returns the best number of probes for the rate p, in the bits that
// SizeBits gives:
//
//	k = round(-log2 p), at least 1
func SizeProbesFPR(p float64) (k int) { return probesOf(-math.Log2(rateOf(p))) }

func probesOf(k float64) int { return int(min(max(1, math.Round(k)), math.MaxInt32)) }

// SizeFPR returns the rate of false positives of n keys in m bits with k probes:
//
//	p = (1 - e^(-k·n/m))^k
func SizeFPR(m uint64, k int, n uint64) (p float64) {
	probes := float64(max(k, 1))
	return math.Pow(fillOf(probes, float64(n), float64(max(m, 1))), probes)
}

// SizeKeys returns how many keys m bits with k probes take until the rate is p:
//
//	n = ⌊-m/k · ln(1 - p^(1/k))⌋
func SizeKeys(m uint64, k int, p float64) (n uint64) {
	probes := float64(max(k, 1))
	return whole(math.Floor(-float64(max(m, 1)) / probes * logNone(p, probes)))
}

// SizeFill returns the share of bits that n keys with k probes are expected to
// set, of m:
//
//	fill = 1 - e^(-k·n/m)     a half when k is best
func SizeFill(m uint64, k int, n uint64) (fill float64) {
	return fillOf(float64(max(k, 1)), float64(n), float64(max(m, 1)))
}

// SizeCount returns how many different keys have set ones of m bits with k probes
// each, by Swamidass and Baldi (2007). It is +Inf if all are set: then there is no
// knowing.
//
//	n = -m/k · ln(1 - ones/m)
func SizeCount(m uint64, k int, ones uint64) (n float64) {
	if m = max(m, 1); ones >= m {
		return math.Inf(1)
	}
	return max(0, -float64(m)/float64(max(k, 1))*math.Log1p(-float64(ones)/float64(m)))
}

func fillOf(k, n, m float64) float64 { return -math.Expm1(-k * n / m) }

// logNone is ln(1 - p^(1/k)), which is negative.
func logNone(p, k float64) float64 { return math.Log1p(-min(math.Pow(rateOf(p), 1/k), almostOne)) }

const (
	almostOne = 1 - 1./(1<<53)
	leastRate = 0x1p-1022 // Log is not exact below
)

// rateOf brings p between 0 and 1, exclusively.
func rateOf(p float64) float64 {
	if math.IsNaN(p) {
		return DefaultFPR
	}
	return min(max(p, leastRate), almostOne)
}

func wholeUp(x float64) uint64 { return max(1, whole(math.Ceil(x))) }

// whole saturates. Requires: no NaN.
func whole(x float64) uint64 {
	switch {
	case x >= math.MaxUint64:
		return math.MaxUint64
	case x <= 0:
		return 0
	}
	return uint64(x)
}
