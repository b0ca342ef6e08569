package guava

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"sync/atomic"

	"github.com/shaledb/shale/bloom"
	"github.com/shaledb/shale/bloom/internal/form"
)

// ErrParameters says that there is no filter as it was asked for, or that two filters
// differ and cannot be merged.
var ErrParameters = errors.New("parameters of a filter")

// A Strategy says how the positions of a key are computed from its MurmurHash3 x64 128. The
// numbers are part of the format.
type Strategy byte

// MITZ32 is MURMUR128_MITZ_32, the strategy of filters that Guava 11 to 16 made. MITZ64 is
// MURMUR128_MITZ_64, the strategy of all filters since then.
const (
	MITZ32 Strategy = 0
	MITZ64 Strategy = 1
)

// String returns Guava's name of the strategy.
func (s Strategy) String() string {
	switch s {
	case MITZ32:
		return "MURMUR128_MITZ_32"
	case MITZ64:
		return "MURMUR128_MITZ_64"
	}
	return fmt.Sprintf("strategy %d", byte(s))
}

// A Filter is a filter of Guava. The zero value answers maybe to every key. It is for
// ReadFrom, UnmarshalBinary and UnmarshalText.
type Filter struct {
	words    []uint64 // the bits, in 1 to 2^31-1 words
	k        int      // hash functions, 1 to 255
	strategy Strategy
}

// Options say how large a filter is, and how it hashes.
type Options struct {
	// Keys is the number of expected insertions. 0 counts as 1, as in Guava.
	Keys uint64
	// FPR is the false positive rate with that many keys, above 0 and below 1. The default is
	// DefaultFPR.
	FPR float64
	// MITZ32 chooses the strategy of old filters, and not MITZ64.
	MITZ32 bool
	// K31 computes k from the truncated number of bits, as Guava 31.1 does, and not from
	// the rate alone, as main of 2026 does. It makes a difference only for few keys: for 1
	// key at 1 %, k is 6 instead of 7.
	K31 bool
}

// DefaultFPR is the rate of a filter for which none is set: that of BloomFilter.create with two
// arguments.
const DefaultFPR = 0.03

// New returns an empty filter for n keys at the false positive rate p, like
// BloomFilter.create of a recent Guava. A p of 0 is refused, as there.
func New(n uint64, p float64) (*Filter, error) {
	if p == 0 {
		p = math.NaN() // NewFilter would take 0 for the default
	}
	return NewFilter(Options{Keys: n, FPR: p})
}

// NewFilter returns an empty filter. It returns [ErrParameters] where Guava
// refuses: for a rate that is not between 0 and 1, for no bits or more than
// 64·(2^31-1), and for k above 255.
func NewFilter(o Options) (*Filter, error) {
	if o.FPR == 0 {
		o.FPR = DefaultFPR
	}
	if !(o.FPR > 0 && o.FPR < 1) {
		return nil, fmt.Errorf("guava: new filter: %w: rate %v is not between 0 and 1", ErrParameters, o.FPR)
	}
	m, k := o.sizes()
	if !(m >= 1 && m <= min(64*math.MaxInt32, 4*math.MaxInt)) {
		return nil, fmt.Errorf("guava: new filter: %w: %.0f bits", ErrParameters, m)
	}
	if k > math.MaxUint8 {
		return nil, fmt.Errorf("guava: new filter: %w: %d hash functions", ErrParameters, k)
	}
	f := &Filter{words: make([]uint64, (uint64(m)+63)/64), k: k, strategy: MITZ64}
	if o.MITZ32 {
		f.strategy = MITZ32
	}
	return f, nil
}

// sizes returns the number of bits that the options ask for, and k.
func (o Options) sizes() (m float64, k int) {
	n := float64(max(o.Keys, 1))
	m = math.Trunc(-n * math.Log(o.FPR) / (math.Ln2 * math.Ln2))
	raw := -math.Log(o.FPR) / math.Ln2
	if o.K31 {
		raw = m / n * math.Ln2
	}
	return m, max(1, int(math.Floor(raw+0.5)))
}

// errZero is the error of adding to the zero Filter, which would lose the key.
var errZero = errors.New("guava: add: the zero Filter takes no keys; make one with New")

// Add adds a key as byteArrayFunnel does. The error is nil unless f is the zero Filter.
func (f *Filter) Add(key []byte) error {
	if len(f.words) == 0 {
		return errZero
	}
	f.set(bloom.Murmur3(key))
	return nil
}

// CheckAndAdd adds a key as byteArrayFunnel does, and reports whether it may have been there
// before: no bit has changed. (Guava's put returns the opposite.)
func (f *Filter) CheckAndAdd(key []byte) bool { return !f.set(bloom.Murmur3(key)) }

// Put is Guava's put: it adds a key as byteArrayFunnel does, and reports whether a bit has changed. If one
// has, the key is certainly new. Any number of goroutines may call Put and MayContain at once, and no
// call waits for another. Of several that put the same new key at the same time, each may be told that
// it is new, and at least one is.
//
// A new key costs about twice the time of Add, which sets the bits without atomic instructions.
func (f *Filter) Put(key []byte) (changed bool) { return f.put(bloom.Murmur3(key)) }

// MayContain reports whether a key may be in the filter. False is certain.
func (f *Filter) MayContain(key []byte) bool { return f.has(bloom.Murmur3(key)) }

// AddString adds a string as stringFunnel(UTF_8) does. It is the same as Add of
// the bytes of s.
func (f *Filter) AddString(s string) error { return f.Add(form.Bytes(s)) }

// MayContainString is MayContain for keys of AddString.
func (f *Filter) MayContainString(s string) bool { return f.MayContain(form.Bytes(s)) }

// K returns the number of hash functions.
func (f *Filter) K() int { return f.k }

// Cap returns the number of bits.
func (f *Filter) Cap() uint64 { return 64 * uint64(len(f.words)) }

// SizeBytes returns the memory that the bits take.
func (f *Filter) SizeBytes() int { return 8 * len(f.words) }

// Strategy returns the strategy.
func (f *Filter) Strategy() Strategy { return f.strategy }

// FillRatio returns the share of the bits that are set.
func (f *Filter) FillRatio() float64 {
	if len(f.words) == 0 {
		return 1
	}
	return float64(f.ones()) / float64(f.Cap())
}

// FPR returns the share of absent keys that pass with the bits that are set at the
// moment: Guava's expectedFpp.
func (f *Filter) FPR() float64 { return math.Pow(f.FillRatio(), float64(f.k)) }

// EstimatedCount estimates from the bits that are set how many different keys were added: as
// Guava's approximateElementCount, but not rounded. It is +Inf if all bits are set.
func (f *Filter) EstimatedCount() float64 {
	if len(f.words) == 0 {
		return math.Inf(1)
	}
	return max(0, -math.Log1p(-f.FillRatio())*float64(f.Cap())/float64(f.k))
}

// String describes the filter in one line. It counts bits.
func (f Filter) String() string {
	if len(f.words) == 0 {
		return "guava.Filter: the zero value, which says maybe to every key"
	}
	return fmt.Sprintf("guava.Filter: about %.0f keys in %d bits, %.3g %% of absent keys pass", f.EstimatedCount(), f.Cap(), 100*f.FPR())
}

// Reset removes all keys.
func (f *Filter) Reset() { clear(f.words) }

// Clone returns a copy. Changes of one do not change the other. Goroutines may Put meanwhile: the copy has
// all keys that were put before, and may have some of the bits of others.
func (f *Filter) Clone() *Filter {
	c := &Filter{words: make([]uint64, len(f.words)), k: f.k, strategy: f.strategy}
	for i := range c.words {
		c.words[i] = atomic.LoadUint64(&f.words[i])
	}
	return c
}

// Union adds the keys of another filter, as putAll does. The error is [ErrParameters] if
// the filters differ in bits, k or strategy. Both must have been filled by the same
// funnel; Union cannot check that.
func (f *Filter) Union(other *Filter) error {
	if len(f.words) != len(other.words) || f.k != other.k || f.strategy != other.strategy {
		return fmt.Errorf("guava: union: %w: %d bits, k %d, %v and %d bits, k %d, %v", ErrParameters,
			f.Cap(), f.k, f.strategy, other.Cap(), other.k, other.strategy)
	}
	for i, w := range other.words {
		f.words[i] |= w
	}
	return nil
}

func (f *Filter) ones() (n uint64) {
	for i := range f.words {
		n += uint64(bits.OnesCount64(atomic.LoadUint64(&f.words[i])))
	}
	return n
}

// set sets the bits of a key with this hash.
func (f *Filter) set(h1, h2 uint64) (changed bool) {
	if len(f.words) == 0 {
		return false
	}
	s, m := f.sequence(h1, h2), f.Cap()
	for range f.k {
		x := s.next() % m
		bit := uint64(1) << (x & 63)
		changed = changed || f.words[x>>6]&bit == 0
		f.words[x>>6] |= bit
	}
	return changed
}

// put sets the bits of a key with this hash, each by an atomic instruction unless it is set.
func (f *Filter) put(h1, h2 uint64) (changed bool) {
	if len(f.words) == 0 {
		return false
	}
	s, m := f.sequence(h1, h2), f.Cap()
	for range f.k {
		x := s.next() % m
		w, bit := &f.words[x>>6], uint64(1)<<(x&63)
		if atomic.LoadUint64(w)&bit == 0 && atomic.OrUint64(w, bit)&bit == 0 {
			changed = true
		}
	}
	return changed
}

// has reports whether all bits of a key with this hash are set.
func (f *Filter) has(h1, h2 uint64) bool {
	if len(f.words) == 0 {
		return true
	}
	s, m := f.sequence(h1, h2), f.Cap()
	for range f.k {
		x := s.next() % m
		if atomic.LoadUint64(&f.words[x>>6])&(1<<(x&63)) == 0 {
			return false
		}
	}
	return true
}

// A sequence generates numbers. Modulo the number of bits they are the positions of a key.
type sequence struct {
	at, step uint64
	narrow   bool // MITZ_32: the arithmetic of a Java int
}

// sequence returns the sequence of a key with this hash, by the strategy of f.
func (f *Filter) sequence(h1, h2 uint64) sequence {
	if f.strategy == MITZ32 {
		// This strategy begins with i = 1.
		return sequence{at: h1 + h1>>32, step: h1 >> 32, narrow: true}
	}
	return sequence{at: h1, step: h2}
}

// next returns the next number, which is not negative in Java. MITZ_64 clears the sign bit,
// MITZ_32 inverts all bits of a negative number.
func (s *sequence) next() uint64 {
	v := s.at
	s.at += s.step
	if !s.narrow {
		return v &^ (1 << 63)
	}
	c := int32(v)
	if c < 0 {
		c = ^c
	}
	return uint64(c)
}
