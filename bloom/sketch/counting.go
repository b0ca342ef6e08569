package sketch

import (
	"fmt"
	"math"
	"math/bits"
	"slices"

	"github.com/shaledb/shale/bloom"
	"github.com/shaledb/shale/bloom/internal/form"
)

// A Counting is a Bloom filter that has counters in place of bits, so that keys can be
// removed again. It is four times as large as a filter of bits. If a key is added only once
// or a few times, a Cuckoo lets fewer absent keys pass, in a third of the memory.
//
// It is blocked: a cache line of 64 bytes has 128 counters of 4 bits. A key has
// six counters in one line, or seven from 14.08 counters a key up. No two of them
// are in the same word. 1.38 % of absent keys pass at 40 bits a key, and 1 % at
// 43.7 bits; see [CountingFPR].
//
// A key may be added several times. It is in the filter until it has been removed as often.
// A counter that reaches 15 is never changed again, because its true value is not known
// after that. Its keys may be taken for present for ever, but none of them is denied.
// That takes 15 additions of one key, or of keys with a common counter. At 10 counters a
// key this happens to one counter in 10^15.
//
// Remove refuses a key that is certainly absent. It cannot see the difference between a
// false positive and a key. A caller that removes a key which was never added, and which
// passes by chance, takes counts from other keys, and these may then be denied. So no is
// certain as long as only keys are removed that have been added.
//
// Measured with 50,000 keys of 40 bits whose hashes are given: 8 ns to add, 7 to
// ask and 13 to remove. With 10 million keys, which do not fit into the cache, it
// takes 57 to ask.
//
// [NewCounting] makes filters. The zero Counting answers maybe to every key, keeps none that
// is added, and cannot be written. It is for UnmarshalBinary and UnmarshalText. Any number
// of goroutines may ask a Counting at once, as long as none changes it.
type Counting struct {
	lines  []countingLine // at least one
	k      int            // counters of a key: countingMinK or countingMaxK; constant
	hasher bloom.Hasher   // constant
	count  uint64         // additions less removals
	shared bool           // the lines belong to the bytes of OpenCounting
}

// Geometry of the counting filter. Part of the file format, never changes.
const (
	counterBits  = 4
	counterMax   = 1<<counterBits - 1 // a counter with this value is never changed
	lineCounters = lineBits / counterBits
	countingMinK = 6
	countingMaxK = 7
)

// A countingLine is a cache line: eight words of 16 counters each. The first counter of
// a word is in its lowest bits.
type countingLine [lineBits / 64]uint64

// Bounds of a counting filter's size. A filter has at most 64 GiB of lines.
const (
	minCountingBits  = 16  // bits a key; 24 % of absent keys pass
	maxCountingBits  = 256 // bits a key; 0.00074 % pass
	maxCountingLines = min(1<<30, form.MaxBytes/lineBytes)
)

// CountingOptions say how large a Counting is, and how it hashes.
type CountingOptions struct {
	// Keys is how many keys are expected in the filter at once. More may be added; then
	// there are more false positives.
	Keys uint64

	// FPR is the largest share of absent keys that may pass while there are Keys keys, such
	// as 0.01. It is from 0.0000075 up, and below 1. It determines the bits a key, which
	// are at least 16; then 0.24 pass.
	FPR float64

	// BitsPerKey sets the memory and not the rate: from 16 to 256. If both are 0, it is 40.
	BitsPerKey float64

	// Hasher is the hash function of keys. The default is the function Hash. If strangers
	// choose the keys, use HashSipHash.
	Hasher bloom.Hasher
}

// NewCounting returns an empty filter with the size and the hash function of o. It
// returns an error if FPR or BitsPerKey is out of bounds, if both are set, and if the
// filter would have more than 64 GiB, or 1 GiB where an int has 32 bits.
func NewCounting(o CountingOptions) (*Counting, error) {
	width := o.BitsPerKey
	switch {
	case o.FPR != 0 && width != 0:
		return nil, fmt.Errorf("bloom: new counting filter: both FPR %v and BitsPerKey %v", o.FPR, width)
	case o.FPR != 0 && !(o.FPR > 0 && o.FPR < 1):
		return nil, fmt.Errorf("bloom: new counting filter: FPR is %v, not between 0 and 1", o.FPR)
	case o.FPR != 0 && o.FPR < CountingFPR(maxCountingBits):
		return nil, fmt.Errorf("bloom: new counting filter: FPR is %v, below %.3g, which %d bits a key have",
			o.FPR, CountingFPR(maxCountingBits), maxCountingBits)
	case o.FPR != 0:
		width = countingBits(o.FPR)
	case width == 0:
		width = 40
	case !(width >= minCountingBits && width <= maxCountingBits):
		return nil, fmt.Errorf("bloom: new counting filter: BitsPerKey is %v, not %d to %d", width, minCountingBits, maxCountingBits)
	}
	if need := float64(o.Keys) * (width / lineBits); need > maxCountingLines {
		return nil, fmt.Errorf("bloom: new counting filter: %d keys of %v bits are more than %d lines", o.Keys, width, maxCountingLines)
	}
	return newCounting(countingLines(o.Keys, width), o.Hasher, probesOfCounting(width)), nil
}

func newCounting(lines int, hasher bloom.Hasher, k int) *Counting {
	return &Counting{lines: make([]countingLine, lines), k: k, hasher: hasher}
}

// countingLines returns how many lines a filter has for n keys with width bits each.
func countingLines(n uint64, width float64) int {
	return int(min(max(math.Ceil(float64(n)*(width/lineBits)), 1), maxCountingLines))
}

// probesOfCounting returns the number of counters a key that lets fewer absent keys pass. A
// seventh counter is better from 14.08 counters a key up.
func probesOfCounting(width float64) int {
	if width < 14.08*counterBits {
		return countingMinK
	}
	return countingMaxK
}

// place returns the index of the line of h, the first of its words, and the distance to the
// next word. The top bits of p say which counter of the first word it is, the next bits
// that of the second word, and so on:
//
//	hash · probeMul:  63   60   58 57        53        49       29
//	                  |word|step|-|counter 0|counter 1| ...    |-
//
// (The picture begins with the highest bit.) The words are word, word + d, word + 2·d and
// so on, modulo 8, where d is 2·step + 1. An odd distance makes them all different, so that
// a key never has the same counter twice. With six or seven free choices in the line, 1.35
// % instead of 1.38 % would pass at 40 bits a key. But then a key could count twice in one
// counter, and a removal would have to find that out.
//
// Only the zero Counting does not have line i.
func (f *Counting) place(h uint64) (i, word, step, p uint64) {
	i, _ = bits.Mul64(h, uint64(len(f.lines)))
	p = h * probeMul
	return i, p >> 61, p>>58&6 | 1, p << 6
}

// counterShift returns the lowest bit, in its word, of the counter that the top
// of p chooses.
func counterShift(p uint64) uint64 { return p >> 60 * counterBits }

// own copies the lines if they belong to the bytes of OpenCounting. It comes before each
// change of a line.
func (f *Counting) own() {
	if f.shared {
		f.copyLines()
	}
}

// copyLines is apart from own so that the compiler inlines own.
func (f *Counting) copyLines() { f.lines, f.shared = slices.Clone(f.lines), false }

// AddHash adds the key with this hash. Requires: the filter's Hasher has made the hash.
func (f *Counting) AddHash(h uint64) {
	i, word, step, p := f.place(h)
	if i >= uint64(len(f.lines)) {
		return
	}
	f.own()
	line := &f.lines[i]
	for range f.k {
		w := &line[word&7]
		if s := counterShift(p); *w>>s&counterMax != counterMax {
			*w += 1 << s
		}
		word, p = word+step, p<<counterBits
	}
	f.count++
}

// RemoveHash removes the key with this hash once: see Remove.
func (f *Counting) RemoveHash(h uint64) bool {
	if !f.MayContainHash(h) {
		return false
	}
	i, word, step, p := f.place(h)
	if i >= uint64(len(f.lines)) {
		return false
	}
	f.own()
	line := &f.lines[i]
	for range f.k {
		w := &line[word&7]
		if s := counterShift(p); *w>>s&counterMax != counterMax {
			*w -= 1 << s // above 0: MayContainHash was true; no counter comes twice
		}
		word, p = word+step, p<<counterBits
	}
	if f.count > 0 { // counters that are stuck at 15 may outlive their keys
		f.count--
	}
	return true
}

// MayContainHash reports whether the key with this hash may be in the filter.
func (f *Counting) MayContainHash(h uint64) bool {
	i, word, step, p := f.place(h)
	if i >= uint64(len(f.lines)) {
		return true
	}
	line := &f.lines[i]
	// The first three counters are tested with one branch, which
	// can be predicted better than a branch for each. A counter plus
	// counterMax has bit 4 set unless the counter is 0.
	a := line[word&7] >> counterShift(p) & counterMax
	b := line[(word+step)&7] >> counterShift(p<<counterBits) & counterMax
	c := line[(word+2*step)&7] >> counterShift(p<<(2*counterBits)) & counterMax
	if (a+counterMax)&(b+counterMax)&(c+counterMax) <= counterMax {
		return false
	}
	word, p = word+3*step, p<<(3*counterBits)
	for range f.k - 3 {
		if line[word&7]>>counterShift(p)&counterMax == 0 {
			return false
		}
		word, p = word+step, p<<counterBits
	}
	return true
}
