package bloom

import (
	"math"

	"github.com/shaledb/shale/bloom/internal/form"
)

// A classic Bloom filter has five sizes: m bits, k probes a key, n keys, the rate p of
// false positives, and m/n bits a key. Each Size function takes two or three of them and
// returns another, by the formulas of Bloom (1970) and of Broder and Mitzenmacher (2004).
// The formulas hold for many keys. Filters of some tens of keys have a few per cent more
// false positives: see Filter.
//
// None of these functions panics or returns NaN, whatever its arguments are. No bits count
// as one bit, and no probes as one probe. Where bits or probes are asked for, no keys count
// as one key. A rate of 0 or less counts as 2^-1022, a rate of 1 or more as the largest
// number below 1, and NaN as DefaultFPR. A result that is too large is the largest that
// there is: 2^64 - 1 for bits and keys, 2^31 - 1 for probes.

// DefaultFPR is the false positive rate of a filter for which none is set.
const DefaultFPR = 0.01

// SizeBits returns the number of bits of a filter of n keys at the rate p, with
// the best number of probes:
//
//	m = ⌈-n · ln p / (ln 2)²⌉     9.585 a key for 1 %, 14.378 for 0.1 %
//
// The best number of probes is a fraction. With the nearest whole number the filter needs
// up to 0.1 % more bits at 1 %, and up to 0.6 % more at 10 %: see [SizeBitsProbes].
func SizeBits(n uint64, p float64) (m uint64) {
	return wholeUp(-float64(max(n, 1)) * math.Log(rateOf(p)) / (math.Ln2 * math.Ln2))
}

// SizeBitsProbes returns the number of bits of a filter of n keys at the rate p
// with k probes:
//
//	m = ⌈-k · n / ln(1 - p^(1/k))⌉
//
// p^(1/k) is the share of bits that are set then. So a filter for another fill ratio than the best, a half,
// which some libraries take as a parameter, has k = ln p / ln fill.
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

// SizeProbesFPR returns the best number of probes for the rate p in a filter with
// [SizeBits] bits:
//
//	k = round(-log2 p), at least 1
//
// Other libraries round up. For 1 % and 0.1 % that is the same number. A filter with the higher one
// takes 0.7 % more bits at 10 %, and 0.8 % more at 3 %.
func SizeProbesFPR(p float64) (k int) { return probesOf(-math.Log2(rateOf(p))) }

func probesOf(k float64) int { return int(min(max(1, math.Round(k)), math.MaxInt32)) }

// SizeFPR returns the rate of false positives of n keys in m bits with k probes:
//
//	p = (1 - e^(-k·n/m))^k
func SizeFPR(m uint64, k int, n uint64) (p float64) {
	probes := float64(max(k, 1))
	return math.Pow(fillOf(probes, float64(n), float64(max(m, 1))), probes)
}

// SizeKeys returns the largest number of keys with which m bits and k probes have
// a rate of at most p:
//
//	n = ⌊-m/k · ln(1 - p^(1/k))⌋
func SizeKeys(m uint64, k int, p float64) (n uint64) {
	probes := float64(max(k, 1))
	return form.Whole(math.Floor(-float64(max(m, 1)) / probes * logNone(p, probes)))
}

// SizeFill returns the share of m bits that n keys with k probes are expected to set:
//
//	fill = 1 - e^(-k·n/m)     a half when k is best
func SizeFill(m uint64, k int, n uint64) (fill float64) {
	return fillOf(float64(max(k, 1)), float64(n), float64(max(m, 1)))
}

// SizeCount estimates how many different keys have set ones of m bits, with k probes
// each, by Swamidass and Baldi (2007). If all bits are set, the number cannot be
// known, and the result is +Inf.
//
//	n = -m/k · ln(1 - ones/m)
func SizeCount(m uint64, k int, ones uint64) (n float64) {
	if m = max(m, 1); ones >= m {
		return math.Inf(1)
	}
	return max(0, -float64(m)/float64(max(k, 1))*math.Log1p(-float64(ones)/float64(m)))
}

func fillOf(k, n, m float64) float64 { return -math.Expm1(-k * n / m) }

// logNone returns ln(1 - p^(1/k)), which is negative.
func logNone(p, k float64) float64 { return math.Log1p(-min(math.Pow(rateOf(p), 1/k), almostOne)) }

const (
	almostOne = 1 - 1./(1<<53)
	leastRate = 0x1p-1022 // math.Log is not exact below
)

// rateOf returns the number above 0 and below 1 that is nearest to p, and
// DefaultFPR for NaN.
func rateOf(p float64) float64 {
	if math.IsNaN(p) {
		return DefaultFPR
	}
	return min(max(p, leastRate), almostOne)
}

func wholeUp(x float64) uint64 { return max(1, form.Whole(math.Ceil(x))) }
