package sketch

import (
	"fmt"
	"math"
	"math/bits"

	"github.com/shaledb/shale/bloom"
	"github.com/shaledb/shale/bloom/internal/form"
)

// taken returns a word with a bit for each counter of w that is not 0.
func taken(w uint64) uint64 {
	w |= w >> 2
	return (w | w>>1) & counterOnes
}

// EstimatedCount estimates the number of different keys from the counters that are not 0 in
// each line (see form.LineKeys); Count counts a key as often as it was added. With 10,000 keys
// of 40 bits its standard deviation is 0.25 per cent. The zero Counting has +Inf.
func (f *Counting) EstimatedCount() float64 {
	return f.estimate(func(line, word int) uint64 { return taken(f.lines[line][word]) })
}

// estimate returns the number of keys in lines whose words have these counters taken. A key
// takes k of the 128 counters of a line, all equally often.
func (f *Counting) estimate(taken func(line, word int) uint64) (n float64) {
	if len(f.lines) == 0 {
		return math.Inf(1)
	}
	for i := range f.lines {
		ones := 0
		for j := range f.lines[i] {
			ones += bits.OnesCount64(taken(i, j))
		}
		n += form.LineKeys(ones, lineCounters, float64(f.k)/lineCounters)
	}
	return n
}

// UnionCount estimates how many different keys are in f, in other, or in both: see
// EstimatedCount. The errors are those of Union.
func (f *Counting) UnionCount(other *Counting) (float64, error) {
	if err := f.match(other, "union count"); err != nil {
		return 0, err
	}
	return f.estimate(func(i, j int) uint64 { return taken(f.lines[i][j]) | taken(other.lines[i][j]) }), nil
}

// IntersectionCount estimates how many different keys are in both filters: the sum of their
// EstimatedCounts less UnionCount (Swamidass and Baldi 2007). The errors are those of Union.
func (f *Counting) IntersectionCount(other *Counting) (float64, error) {
	union, err := f.UnionCount(other)
	if err != nil {
		return 0, err
	}
	return form.Common(f.EstimatedCount(), other.EstimatedCount(), union), nil
}

// match returns ErrMismatch unless the counters of f and other mean the same.
func (f *Counting) match(other *Counting, doing string) error {
	if len(f.lines) == 0 || len(f.lines) != len(other.lines) || f.k != other.k || f.hasher != other.hasher {
		return fmt.Errorf("bloom: %s of counting filters: %w", doing, bloom.ErrMismatch)
	}
	return nil
}

// UnionCount returns how many numbers are in s, in other, or in both. It is exact.
func (s *Bitset) UnionCount(other *Bitset) uint64 {
	return s.count + other.count - s.IntersectionCount(other)
}

// IntersectionCount returns how many numbers are in both sets. It is exact.
func (s *Bitset) IntersectionCount(other *Bitset) (n uint64) {
	for i := range min(len(s.words), len(other.words)) {
		n += uint64(bits.OnesCount64(s.words[i] & other.words[i]))
	}
	return n
}
