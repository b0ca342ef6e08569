package bloom

import (
	"fmt"
	"math"
	"math/bits"
	"sync/atomic"

	"github.com/shaledb/shale/bloom/internal/form"
	"github.com/shaledb/shale/bloom/internal/lines"
)

// An AtomicBlocked is a blocked Bloom filter. Any number of goroutines may add keys to it and
// ask it, at once and without locks. CheckAndAdd does both: at most one of several goroutines
// that bring the same key learns that it is new. [OpenAtomicBlocked] opens its serialized form
// and adds keys to it there, so that processes can share a filter in a mapped file.
//
// Like a Blocked it has lines of 512 bits, and a question looks at one of them. A key sets
// two bits in each of three 64-bit words of its line. So an addition takes three atomic
// operations and not six. The price is small: 1.00 % false positives at 10 bits a key,
// where six bits anywhere in the line have 0.97 %. (Three bits in each of two words would
// take two atomic operations, and have 1.07 %.)
//
// The zero AtomicBlocked answers maybe to every key, and adding to it changes nothing.
type AtomicBlocked struct {
	// Constant after construction.
	lines  []atomicLine // the slice is constant, its words are atomic
	hasher Hasher       // of the keys
	noted  bool         // each addition is counted, and may make a sealed form live
	shared *atomicShared
}

type atomicLine [lineBits / 64]atomicWord

type atomicWord struct{ atomic.Uint64 }

// set sets the bits of mask. It loads the word first, because an atomic write costs 5 ns
// even if it changes nothing, and takes the cache line away from other processors.
func (w *atomicWord) set(mask uint64) {
	if w.Load()&mask != mask {
		w.Or(mask)
	}
}

// AtomicBlockedOptions say how large an [AtomicBlocked] is.
type AtomicBlockedOptions struct {
	// Keys is how many keys are expected. More may be added; then there are more
	// false positives.
	Keys uint64

	// BitsPerKey is how many bits there are for each key, above 0. The default is 10, which
	// is the best number, because a key always sets six.
	BitsPerKey float64

	// Uncounted says that Count stays 0. Then adding a key takes about 10 ns and not 15.
	Uncounted bool

	// Hasher is the hash function of keys. The default is the function Hash. If strangers
	// choose the keys, use HashSipHash.
	Hasher Hasher
}

// NewAtomicBlocked returns an empty filter with the size that o describes, rounded up to
// whole lines of 64 bytes. It has at least one line. The error says that BitsPerKey is not a
// number above 0, or that the filter would have more than 128 GiB, or 1 GiB where an int has
// 32 bits.
func NewAtomicBlocked(o AtomicBlockedOptions) (*AtomicBlocked, error) {
	if o.BitsPerKey == 0 {
		o.BitsPerKey = 10
	}
	if !(o.BitsPerKey > 0 && o.BitsPerKey <= math.MaxFloat64) {
		return nil, fmt.Errorf("bloom: new atomic filter: BitsPerKey is %v, not a number above 0", o.BitsPerKey)
	}
	lines := math.Ceil(float64(o.Keys) * (o.BitsPerKey / lineBits))
	if lines > form.MaxBytes/lineBytes {
		return nil, fmt.Errorf("bloom: new atomic filter: %d keys of %v bits are more than %d bytes", o.Keys, o.BitsPerKey, uint64(form.MaxBytes))
	}
	n := max(1, int(lines))
	return &AtomicBlocked{lines: make([]atomicLine, n), hasher: o.Hasher, noted: !o.Uncounted, shared: newAtomicShared(n, 0)}, nil
}

// The top bits of hash · probeMul choose the bits that a key sets in its line:
//
//	63   60  58     52     46     40     34     28     22
//	|word|step|bit 0|bit 1 |bit 2 |bit 3 |bit 4 |bit 5 |-
//
// The three words are word, word + d and word + 2·d, modulo 8, where the distance d is
// 2·step + 1. An odd distance makes them different. (With three free choices, which may
// coincide, 1.01 % would pass at 10 bits a key and not 0.99 %.)
const atomicBits = 6 // bits of a bit's number in its word

// AddHash adds the key with this hash, made by the filter's Hasher. A question that begins
// after AddHash has returned is answered with true.
func (f *AtomicBlocked) AddHash(h uint64) {
	i, word, step, p := f.place(h)
	if i >= uint64(len(f.lines)) {
		return
	}
	if f.noted {
		f.shared.note(i, 1)
	}
	line := &f.lines[i]
	line[word&7].set(twoBits(p))
	line[(word+step)&7].set(twoBits(p << (2 * atomicBits)))
	line[(word+2*step)&7].set(twoBits(p << (4 * atomicBits)))
}

// MayContainHash reports whether a key with this hash may have been added. False is certain
// for every key whose AddHash has returned.
func (f *AtomicBlocked) MayContainHash(h uint64) bool {
	i, word, step, p := f.place(h)
	if i >= uint64(len(f.lines)) {
		return true
	}
	line := &f.lines[i]
	missing := twoBits(p) &^ line[word&7].Load()
	missing |= twoBits(p<<(2*atomicBits)) &^ line[(word+step)&7].Load()
	missing |= twoBits(p<<(4*atomicBits)) &^ line[(word+2*step)&7].Load()
	return missing == 0
}

// place returns the index of the line of h, the first of its three words, and the distance
// to the next word. The top bits of p say which two bits to set in the first word, then in
// the second and in the third. Only the zero AtomicBlocked does not have line i.
func (f *AtomicBlocked) place(h uint64) (i, word, step, p uint64) {
	i, _ = bits.Mul64(h, uint64(len(f.lines)))
	p = h * probeMul
	return i, p >> 61, p>>58&6 | 1, p << 5
}

// twoBits returns the mask of the two bits at the top of p.
func twoBits(p uint64) uint64 {
	mask := uint64(1)<<(p>>58) | 1<<(p>>52&63)
	if lines.BigEndian { // the bytes of a word are the same on all machines
		mask = bits.ReverseBytes64(mask)
	}
	return mask
}

// SizeBytes returns the memory that the lines take. There are at most 4 KiB more.
func (f *AtomicBlocked) SizeBytes() int { return len(f.lines) * lineBytes }

// Hasher returns the function that keys are hashed with.
func (f *AtomicBlocked) Hasher() Hasher { return f.hasher }
