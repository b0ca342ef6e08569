package bloom

import (
	"fmt"
	"math"
	"math/bits"
	"slices"
)

// CountingFPR returns the share of absent keys that a Counting with so many bits a
// key lets pass when all its keys are there. A filter of few keys has a lower one,
// because it has whole lines; Counting.FPR knows those.
func CountingFPR(bitsPerKey float64) float64 {
	const lines = 1 << 40
	width := min(max(bitsPerKey, minCountingBits), maxCountingBits)
	return countingFPR(lines*lineBits/width, lines, probesOfCounting(width))
}

// countingBits returns the fewest bits a key with which CountingFPR is p or less,
// between the bounds.
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

// countingFPR returns the share of absent keys that pass with so many keys in so
// many lines. It is exact but for keys whose hashes are equal.
//
// By inclusion and exclusion: an absent key passes with the chance that the counter
// in none of its words is 0, which is the sum over all sets of its words, of the
// chance that the counters of the set are all 0, with the sign of the set's size.
// One key leaves the counters of a set alone with the chance q^(words of the set
// that it has a counter in), q = 15/16; n keys in L lines with the n-th power of
// 1 - (1 - that)/L.
//
// A key with seven counters leaves out one of eight words, any. One with six
// leaves out two that are an odd distance apart: any one of the four even words
// and any one of the four odd ones, independent of each other.
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

// leftOut is by how much the chance that a key leaves a set alone is larger,
// because the one word of so many that it leaves out may be one of the set's s.
func leftOut(s, words int, q float64) float64 {
	share := float64(s) / float64(words)
	return 1 - share + share/q
}

// untouched is the chance that no key has touched some counters of a line, of
// which each key in the line leaves them alone with the chance one.
func untouched(one, keys, lines float64) float64 {
	if keys == 0 {
		return 1
	}
	return math.Exp(keys * math.Log1p((one-1)/lines))
}

func signOf(n int) float64 { return float64(1 - 2*(n&1)) }

// subsets is how many sets of s there are among n.
func subsets(n, s int) float64 {
	c := 1.0
	for i := range s {
		c = c * float64(n-i) / float64(i+1)
	}
	return c
}

// FPR returns the share of absent keys that MayContain is expected to let pass,
// with the keys that are there now.
func (f *Counting) FPR() float64 {
	if len(f.lines) == 0 {
		return 1
	}
	return countingFPR(float64(f.count), float64(len(f.lines)), f.k)
}

// Count returns how many keys are there: additions less removals.
func (f *Counting) Count() uint64 { return f.count }

// K returns how many counters a key has.
func (f *Counting) K() int { return f.k }

// Cap returns how many counters there are.
func (f *Counting) Cap() uint64 { return uint64(len(f.lines)) * lineCounters }

// SizeBytes returns the memory that the counters take.
func (f *Counting) SizeBytes() int { return len(f.lines) * lineBytes }

// Hasher returns the function that keys are hashed with.
func (f *Counting) Hasher() Hasher { return f.hasher }

// Lowest bits of all counters of a word.
const counterOnes = 0x1111111111111111

// FillRatio returns the share of counters that are not 0. It looks at all of them.
func (f *Counting) FillRatio() float64 {
	if len(f.lines) == 0 {
		return 1
	}
	set := 0
	for i := range f.lines {
		for _, w := range f.lines[i] {
			w |= w >> 2
			set += bits.OnesCount64((w | w>>1) & counterOnes)
		}
	}
	return float64(set) / float64(f.Cap())
}

// Reset takes out all keys. The memory is kept.
func (f *Counting) Reset() {
	clear(f.lines)
	f.count = 0
}

// Clone returns a copy in memory of its own.
func (f *Counting) Clone() *Counting {
	g := *f
	g.lines = slices.Clone(f.lines)
	return &g
}

// Merge adds all keys of other, which must have been made with the same options,
// else there is an error and nothing changes. Counters that would pass 15 stay at
// 15.
func (f *Counting) Merge(other *Counting) error {
	if len(f.lines) == 0 || len(f.lines) != len(other.lines) || f.k != other.k || f.hasher != other.hasher {
		return fmt.Errorf("bloom: merge counting filters: %w", ErrMismatch)
	}
	for i := range f.lines {
		line, with := &f.lines[i], &other.lines[i]
		for j, w := range line {
			line[j] = addCounters(w, with[j])
		}
	}
	f.count += other.count
	return nil
}

// addCounters adds 16 counters to 16 others.
func addCounters(a, b uint64) uint64 {
	const half = 0x0f0f0f0f0f0f0f0f
	return addHalf(a&half, b&half) | addHalf(a>>4&half, b>>4&half)<<4
}

// addHalf adds counters that have eight bits of room.
func addHalf(a, b uint64) uint64 {
	const half = 0x0f0f0f0f0f0f0f0f
	sum := a + b
	over := sum >> 4 & 0x0101010101010101 // at most 30: one bit tells
	return (sum | over*counterMax) & half
}
