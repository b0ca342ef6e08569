package bloom

import (
	"fmt"
	"math"
	"math/bits"
)

// A Counting is a Bloom filter of counters in place of bits, so that keys can be
// taken out again. It is four times as large as one of bits; where a key is added
// once or a few times, a Cuckoo lets pass less in a third of the memory.
//
// It is blocked: 128 counters of 4 bits are a cache line of 64 bytes, and a key
// has six of them in one line, seven from 14.08 counters a key on, no two in the
// same word. 40 bits a key let pass 1.38 % of what is absent, 43.7 bits 1 %; see
// CountingFPR.
//
// A key may be added several times, and is there until it has been removed as
// often. A counter that reaches 15 stays there for good, because nobody knows
// what it would have reached: its keys may be taken for present for ever, but
// none is denied. That takes 15 additions of one key, or of keys that meet, which
// at 10 counters a key befalls one counter in 10^15.
//
// Remove refuses what is certainly absent. It cannot tell a false positive from a
// key: whoever removes a key that was never added, and passes by chance, takes
// counts from keys that are there, and these may then be denied. No is certain as
// long as only what was added is removed.
//
// Measured with 50,000 keys of 40 bits and their hashes given: 8 ns to add, 7 to ask
// and 13 to remove; with 10 million, out of cache, 57 to ask. With a million keys of
// 16 bytes at 1 %, hash included: 17 to ask, 47 to add and remove. BoomFilters takes
// 85 to 102 and 329 for that, without blocks and with 38.3 bits a key.
//
// NewCounting makes filters. The zero Counting says maybe to every key, keeps none that
// is added, and is an error to write. It is for UnmarshalBinary and UnmarshalText. Any number of goroutines may ask one at once, as long as none changes it.
type Counting struct {
	lines  []countingLine // constant slice, at least one
	k      int            // counters of a key: countingMinK or countingMaxK; constant
	hasher Hasher         // constant
	count  uint64         // keys added and not removed
}

// Geometry of the counting filter. Part of the file format, never changes.
const (
	counterBits  = 4
	counterMax   = 1<<counterBits - 1 // a counter that has got here is never changed
	lineCounters = lineBits / counterBits
	countingMinK = 6
	countingMaxK = 7
)

// A countingLine is a cache line: eight words of 16 counters, the first counter
// in the lowest bits.
type countingLine [lineBits / 64]uint64

// Bounds of a counting filter's size. There are no more lines than 64 GiB have.
const (
	minCountingBits  = 16  // bits a key, with which 24 % pass
	maxCountingBits  = 256 // 0.00074 %
	maxCountingLines = min(1<<30, maxBytes/lineBytes)
)

// CountingOptions say how large a Counting is, and how it hashes.
type CountingOptions struct {
	// Keys is how many keys are expected to be there at once. More may be added;
	// false positives then become more.
	Keys uint64

	// FPR is the largest share of absent keys that may pass, such as 0.01, when so
	// many keys are there: from 0.0000075 up, and below 1. It sets BitsPerKey, to 16
	// at least, with which 0.24 pass.
	FPR float64

	// BitsPerKey is for whoever would rather set memory than a rate: from 16 to
	// 256. The default, if FPR is 0 too, is 40.
	BitsPerKey float64

	// Hasher is the function of keys; Hash by default. Keys of strangers want
	// HashSipHash.
	Hasher Hasher
}

// NewCounting returns an empty filter for n keys, with which at most a share of p of
// absent keys is expected to pass. It panics with NewCountingFor's error if there is
// no such filter. NewCountingFor is for numbers that come from outside of the program.
func NewCounting(n uint64, p float64) *Counting {
	if p == 0 {
		p = math.NaN() // not the default
	}
	return made(NewCountingFor(CountingOptions{Keys: n, FPR: p}))
}

// NewCountingFor returns an empty filter as o says, or an error if there is none: a
// rate or bits beyond their bounds, a rate and bits, or more than 64 GiB, or 1 GiB
// where an int has 32 bits.
func NewCountingFor(o CountingOptions) (*Counting, error) {
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

func newCounting(lines int, hasher Hasher, k int) *Counting {
	return &Counting{lines: make([]countingLine, lines), k: k, hasher: hasher}
}

// countingLines returns how many lines n keys of so many bits take.
func countingLines(n uint64, width float64) int {
	return int(min(max(math.Ceil(float64(n)*(width/lineBits)), 1), maxCountingLines))
}

// probesOfCounting returns the better number of counters a key. 14.08 counters a
// key is where the seventh begins to pay.
func probesOfCounting(width float64) int {
	if width < 14.08*counterBits {
		return countingMinK
	}
	return countingMaxK
}

// place returns the index of h's line, the first of its words, the distance to the next one,
// and the counters within the words, from the top of p:
//
//	hash · probeMul:  63   60   58 57        53        49       29
//	                  |word|step|-|counter 0|counter 1| ...    |-
//
// (Shown from the highest bit.) The words are word, word + 2·step + 1 and so on,
// modulo 8: an odd distance, so that all are different, and a key has no counter
// twice. With six or seven free choices in the line, 1.35 % instead of 1.38 would
// pass at 40 bits a key, but counters that meet would be counted twice, and
// removals would have to tell that.
//
// Only the zero Counting does not have that line.
func (f *Counting) place(h uint64) (i, word, step, p uint64) {
	i, _ = bits.Mul64(h, uint64(len(f.lines)))
	p = h * probeMul
	return i, p >> 61, p>>58&6 | 1, p << 6
}

// counterShift is where in its word the counter at the top of p begins.
func counterShift(p uint64) uint64 { return p >> 60 * counterBits }

// AddHash adds the key with this hash, which must be of the filter's Hasher.
func (f *Counting) AddHash(h uint64) {
	i, word, step, p := f.place(h)
	if i >= uint64(len(f.lines)) {
		return
	}
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
	line := &f.lines[i]
	for range f.k {
		w := &line[word&7]
		if s := counterShift(p); *w>>s&counterMax != counterMax {
			*w -= 1 << s // it is not 0: a key has no counter twice
		}
		word, p = word+step, p<<counterBits
	}
	if f.count > 0 { // counters that stay may outlive their keys
		f.count--
	}
	return true
}

// MayContainHash tells whether the key with this hash may be there.
func (f *Counting) MayContainHash(h uint64) bool {
	i, word, step, p := f.place(h)
	if i >= uint64(len(f.lines)) {
		return true
	}
	line := &f.lines[i]
	// Three counters before the first branch: see hasFirst.
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

// Add adds key once. It allocates nothing.
func (f *Counting) Add(key []byte) { f.AddHash(f.hasher.Hash(key)) }

// Remove removes key once, and reports whether it did. It refuses what is
// certainly absent, and changes nothing then. What was never added must not be
// removed: if it passes by chance, keys that are there are denied from then on. It
// allocates nothing.
func (f *Counting) Remove(key []byte) bool { return f.RemoveHash(f.hasher.Hash(key)) }

// MayContain tells whether key may be there. False is certain. It allocates
// nothing.
func (f *Counting) MayContain(key []byte) bool { return f.MayContainHash(f.hasher.Hash(key)) }
