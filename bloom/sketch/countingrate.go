package sketch

import (
	"fmt"
	"math"
	"math/bits"
	"slices"

	"github.com/shaledb/shale/bloom"
)

// CountingFPR returns the share of absent keys that pass a Counting with bitsPerKey bits a
// key when it has all its keys. A filter of few keys lets fewer pass, because it has whole
// lines; [Counting.FPR] takes that into account.
func CountingFPR(bitsPerKey float64) float64 {
	const lines = 1 << 40
	width := min(max(bitsPerKey, minCountingBits), maxCountingBits)
	return countingFPR(lines*lineBits/width, lines, probesOfCounting(width))
}

// countingBits returns the fewest bits a key, within the bounds, with which
// CountingFPR is p or less.
func countingBits(p float64) float64 {
	low, high := float64(minCountingBits), float64(maxCountingBits)
	if CountingFPR(low) <= p {
		return low
	}
	for high-low > 1e-9 {
		mid := (low + high) / 2
		if CountingFPR(mid) <= p {
			high = mid
		} else {
			low = mid
		}
	}
	return high
}

// countingFPR returns the share of absent keys that pass a filter with this number of keys
// and lines. It is exact, except that keys with equal hashes are left out.
//
// It uses inclusion and exclusion. An absent key passes if none of its counters is 0.
// The probability of that is a sum over all subsets s of the key's counters: the
// probability that all counters of s are 0, with a plus if s has an even number of
// counters and a minus if odd.
//
// A key in the line leaves all counters of s alone with the probability q^w, where
// q = 15/16 and w is the number of words of s in which that key has a counter.
// With n keys in L lines, the n-th power of 1 - (1 - q^w)/L is the probability
// that all of them leave s alone.
//
// A key with seven counters leaves out one of the eight words, any of them. A key with six
// leaves out two words at an odd distance: one of the four even words and one of the four
// odd ones, independently of each other.
func countingFPR(keys, lines float64, k int) float64 {
	const q = 15. / 16
	if k == countingMaxK {
		rate := 0.0
		for s := range 8 {
			all := math.Pow(q, float64(s)) * leftOut(s, 8, q)
			rate += signOf(s) * subsets(7, s) * untouched(all, keys, lines)
		}
		return min(max(rate, 0), 1)
	}
	rate := 0.0
	for even := range 4 {
		for odd := range 4 {
			all := math.Pow(q, float64(even+odd)) * leftOut(even, 4, q) * leftOut(odd, 4, q)
			rate += signOf(even+odd) * subsets(3, even) * subsets(3, odd) * untouched(all, keys, lines)
		}
	}
	return min(max(rate, 0), 1)
}

// leftOut returns the factor by which the probability that a key leaves a set alone grows
// because the key leaves out one of words words. The set has s of these words, and the one
// that is left out may be among them.
func leftOut(s, words int, q float64) float64 {
	share := float64(s) / float64(words)
	return 1 - share + share/q
}

// untouched returns the probability that no key has touched a set of counters in a line. A
// key in that line leaves them alone with the probability one.
func untouched(one, keys, lines float64) float64 {
	if keys == 0 {
		return 1
	}
	return math.Exp(keys * math.Log1p((one-1)/lines))
}

// signOf is 1 for an even n and -1 for an odd one.
func signOf(n int) float64 { return float64(1 - 2*(n&1)) }

// subsets returns how many sets of s elements there are among n: a binomial coefficient.
func subsets(n, s int) float64 {
	c := 1.0
	for i := range s {
		c = c * float64(n-i) / float64(i+1)
	}
	return c
}

// FPR returns the share of absent keys that are expected to pass MayContain with the keys
// that are in the filter at the moment.
func (f *Counting) FPR() float64 {
	if len(f.lines) == 0 {
		return 1
	}
	return countingFPR(float64(f.count), float64(len(f.lines)), f.k)
}

// Count returns how many keys are in the filter: additions less removals.
func (f *Counting) Count() uint64 { return f.count }

// K returns how many counters a key has.
func (f *Counting) K() int { return f.k }

// Cap returns how many counters the filter has.
func (f *Counting) Cap() uint64 { return uint64(len(f.lines)) * lineCounters }

// SizeBytes returns the memory that the counters take.
func (f *Counting) SizeBytes() int { return len(f.lines) * lineBytes }

// Hasher returns the function that keys are hashed with.
func (f *Counting) Hasher() bloom.Hasher { return f.hasher }

// counterOnes has the lowest bit of each counter of a word.
const counterOnes = 0x1111111111111111

// taken returns a word with a bit for each counter of w that is not 0.
func taken(w uint64) uint64 {
	w |= w >> 2
	return (w | w>>1) & counterOnes
}

// FillRatio returns the share of counters that are not 0. It looks at all of them.
func (f *Counting) FillRatio() float64 {
	if len(f.lines) == 0 {
		return 1
	}
	set := 0
	for i := range f.lines {
		for _, w := range f.lines[i] {
			set += bits.OnesCount64(taken(w))
		}
	}
	return float64(set) / float64(f.Cap())
}

// Reset removes all keys. It keeps the memory.
func (f *Counting) Reset() {
	f.own()
	clear(f.lines)
	f.count = 0
}

// Clone returns a copy in memory of its own.
func (f *Counting) Clone() *Counting {
	g := *f
	g.lines, g.shared = slices.Clone(f.lines), false
	return &g
}

// Union adds all keys of other. If the filters differ in size, counters a key or
// hash function, the error is ErrMismatch, and nothing changes. A counter whose
// sum is above 15 stays at 15.
func (f *Counting) Union(other *Counting) error {
	if len(f.lines) == 0 || len(f.lines) != len(other.lines) || f.k != other.k || f.hasher != other.hasher {
		return fmt.Errorf("bloom: union of counting filters: %w", bloom.ErrMismatch)
	}
	f.own()
	for i := range f.lines {
		line, with := &f.lines[i], &other.lines[i]
		for j, w := range line {
			line[j] = addCounters(w, with[j])
		}
	}
	f.count += other.count
	return nil
}

// addCounters adds the 16 counters of b to those of a. A sum above 15 becomes 15.
func addCounters(a, b uint64) uint64 {
	const half = 0x0f0f0f0f0f0f0f0f
	return addHalf(a&half, b&half) | addHalf(a>>4&half, b>>4&half)<<4
}

// addHalf adds eight counters, each of which has eight bits of room.
func addHalf(a, b uint64) uint64 {
	const half = 0x0f0f0f0f0f0f0f0f
	sum := a + b
	over := sum >> 4 & 0x0101010101010101 // a sum is at most 30, so bit 4 is set if it is above 15
	return (sum | over*counterMax) & half
}
