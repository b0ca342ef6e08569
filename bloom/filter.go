package bloom

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
)

// Filter is the classic Bloom filter: an array of m bits, of which each key sets k,
// anywhere in the array. It is the one to begin with. It takes keys one by one, and among
// the filters that do so it has the fewest bits for a given rate of false positives.
//
// Memory: 9.59 bits a key at 1 %, 14.38 at 0.1 %, and as much again for each further digit
// (SizeBits), rounded up to whole words of 64 bits.
//
// Time, with keys of 16 bytes and hashing included: if the filter fits into the cache, it
// takes 17 ns to add a key, 15 to ask for an absent one and 16 for a present one. If it
// does not fit, these take 65 to 200 ns: an absent key costs three cache lines, which are
// loaded in parallel, a present one k. (A question to a Blocked costs one line either way.)
//
// False is certain. The share of absent keys that pass is the share of theory, within 5 %
// and what chance allows, from 10 keys to 10 million and from a rate of 0.3 to one of 1e-6.
// In filters for 10 keys at 1e-4, 0.1136 ± 0.0006 ‰ passed; 0.1143 ‰ would with independent
// probes. (SizeFPR says 0.0987 ‰ there. Its formula is made for many keys: it is 16 % too
// low at 10 keys, and 1.5 % at 100.)
//
// The probes are those of enhanced double hashing (Dillinger and Manolios 2004). A position
// advances by a step, and the step itself changes from probe to probe. The function
// thirdWord has the formula. With plain double hashing, where the step is constant, some
// keys share whole sequences of positions: 12 times the share of theory passes at 10 keys
// and 1e-4, and 1400 times that share at 1e-6. With a constant as the third word, in place
// of bits of the hash, it still is 11 % more, and four times as much.
//
// Any number of goroutines may ask a Filter at once, as long as none changes it. The zero
// Filter answers maybe to every key, keeps none that is added, and cannot be written. It is
// for UnmarshalBinary, UnmarshalText and ReadFrom.
type Filter struct {
	words []uint64
	m     uint64 // bits: 64 · len(words)
	k     int
	count uint64
	hash  hash128
}

// FilterOptions say how large a filter is, and how it hashes. Keys or Bits must be set.
type FilterOptions struct {
	// Keys is how many different keys the filter is for. More may be added; then more
	// absent keys pass than FPR says.
	Keys uint64

	// FPR is the rate of false positives with Keys keys, above 0 and below 1. The
	// default is DefaultFPR.
	FPR float64

	// Bits is the size in bits. It replaces the size that follows from Keys and FPR. It is
	// rounded up to whole words of 64.
	Bits uint64

	// Probes is k, at most MaxProbes. The default is the best number for Keys in Bits, or,
	// if one of these is not set, the best number for FPR.
	Probes int

	// Hasher is the hash function, if Hash is nil. The default is Murmur3. With a function
	// that has a secret seed (HashSipHash), strangers cannot choose keys that pass.
	Hasher Hasher

	// Hash is a hash function of the caller's own, or one of package hashes. It is
	// called with a copy of the key.
	Hash Hash128

	// HashID names Hash in the serialized form: a number from FirstOwnHashID up.
	// A filter that has Hash and no HashID cannot be serialized, and can be
	// merged with its clones only.
	HashID HashID
}

// MaxProbes is the largest number of probes that a filter may have.
const MaxProbes = 64

// maxBytes limits the size of a filter, so that a mistaken number does not take all the
// memory of the machine: 128 GiB, and 1 GiB where an int has 32 bits. No form of a filter
// then has a length that overflows an int.
const maxBytes = min(1<<37, math.MaxInt/2)

const maxFilterBits = 8 * maxBytes

// ErrMismatch says that two filters differ in size, probes or hash function. So a bit of
// one does not mean the same as this bit of the other.
var ErrMismatch = errors.New("filters differ in shape or hash")

// New returns an empty filter for n keys at the false positive rate p, with
// Murmur3. An n of 0 counts as 1.
//
// It panics with NewFilter's error if there is no such filter: p is not between 0 and 1, or
// the filter would have more than 128 GiB, or 1 GiB where an int has 32 bits. Use NewFilter
// for numbers that come from outside of the program.
func New(n uint64, p float64) *Filter {
	if p == 0 {
		p = math.NaN() // NewFilter would take 0 for the default
	}
	return made(NewFilter(FilterOptions{Keys: max(n, 1), FPR: p}))
}

// made returns f. It panics with err, if there is one: the short constructors
// return no error.
func made[F any](f F, err error) F {
	if err != nil {
		panic(err)
	}
	return f
}

// NewFilter returns an empty filter. Its error names the option that is wrong.
func NewFilter(o FilterOptions) (*Filter, error) {
	hash, err := o.hash128()
	if err != nil {
		return nil, err
	}
	if o.FPR == 0 {
		o.FPR = DefaultFPR
	}
	switch {
	case !(o.FPR > 0 && o.FPR < 1):
		return nil, fmt.Errorf("bloom: new filter: FPR is %v, not between 0 and 1", o.FPR)
	case o.Probes < 0 || o.Probes > MaxProbes:
		return nil, fmt.Errorf("bloom: new filter: Probes is %d, not 1 to %d", o.Probes, MaxProbes)
	case o.Keys == 0 && o.Bits == 0:
		return nil, errors.New("bloom: new filter: neither Keys nor Bits")
	}
	m, k := o.shape()
	if m > maxFilterBits {
		return nil, fmt.Errorf("bloom: new filter: %d bits are more than %d", m, uint64(maxFilterBits))
	}
	m = (m + 63) &^ 63
	return &Filter{words: make([]uint64, m/64), m: m, k: k, hash: hash}, nil
}

// shape returns the number of bits and of probes that the options ask for.
func (o *FilterOptions) shape() (m uint64, k int) {
	k = o.Probes
	switch {
	case k > 0:
	case o.Bits > 0 && o.Keys > 0:
		k = SizeProbes(o.Bits, o.Keys)
	default:
		k = SizeProbesFPR(o.FPR)
	}
	k = min(k, MaxProbes)
	if o.Bits > 0 {
		return o.Bits, k
	}
	return SizeBitsProbes(o.Keys, o.FPR, k), k
}

func (o *FilterOptions) hash128() (hash128, error) {
	switch {
	case o.Hash == nil && o.HashID == 0:
		return hash128{hasher: o.Hasher}, nil
	case o.Hash == nil:
		return hash128{}, fmt.Errorf("bloom: new filter: HashID is %d, of no Hash", o.HashID)
	case o.Hasher != Hasher{}:
		return hash128{}, errors.New("bloom: new filter: both Hash and Hasher")
	case o.HashID != 0 && o.HashID < FirstOwnHashID:
		return hash128{}, fmt.Errorf("bloom: new filter: HashID is %d, below %d", o.HashID, FirstOwnHashID)
	}
	return hash128{own: &ownHash{hash: o.Hash, id: o.HashID}}, nil
}

// Add adds key.
func (f *Filter) Add(key []byte) { f.AddHash(f.hash.of(key)) }

// AddString adds s. It is the same as adding the bytes of s.
func (f *Filter) AddString(s string) { f.AddHash(f.hash.of([]byte(s))) }

// MayContain reports whether key may have been added. False is certain. It
// allocates nothing.
func (f *Filter) MayContain(key []byte) bool { return f.MayContainHash(f.hash.of(key)) }

// Check is another name of MayContain.
func (f *Filter) Check(key []byte) bool { return f.MayContainHash(f.hash.of(key)) }

// CheckString is MayContain for the bytes of s.
func (f *Filter) CheckString(s string) bool { return f.MayContainHash(f.hash.of([]byte(s))) }

// CheckAndAdd adds key and reports whether it may have been there before.
func (f *Filter) CheckAndAdd(key []byte) bool { return f.CheckAndAddHash(f.hash.of(key)) }

// Hash returns the hash of key by the filter's function, for AddHash, MayContainHash and
// CheckAndAddHash. A key that is asked of several filters has to be hashed only once.
func (f *Filter) Hash(key []byte) (h1, h2 uint64) { return f.hash.of(key) }

// thirdWord returns z, the third word of the probes of a key. The probes begin at x
// = h1. After each of them x advances by y, y by z, and z by probeMul, where y
// begins at h2. So probe i is at
//
//	x[i] = h1 + i·y + i(i-1)/2·z + i(i-1)(i-2)/6·probeMul
//
// with the first y and z. The top bits of x choose the bit of the filter. z has the low
// half of h1 on top, and the low half of h2: bits that hardly influence the top bits of x
// and y. Part of the file format, never changes.
func thirdWord(h1, h2 uint64) uint64 { return h1<<32 | h2&math.MaxUint32 }

// AddHash adds the key with this hash (see Hash).
func (f *Filter) AddHash(h1, h2 uint64) {
	x, y, z := h1, h2, thirdWord(h1, h2)
	for range f.k {
		i, _ := bits.Mul64(x, f.m)
		f.words[i>>6] |= 1 << (i & 63)
		x += y
		y += z
		z += probeMul
	}
	f.count++
}

// MayContainHash is MayContain for the key with this hash (see Hash).
//
// About half of the bits of a full filter are set, so the processor cannot
// predict the answer of one probe. The first three probes are loaded in parallel
// and tested with one branch.
func (f *Filter) MayContainHash(h1, h2 uint64) bool {
	x, y, z := h1, h2, thirdWord(h1, h2)
	k := f.k
	if k >= atOnce {
		all := f.bit(x)
		x, y, z = x+y, y+z, z+probeMul
		all &= f.bit(x)
		x, y, z = x+y, y+z, z+probeMul
		all &= f.bit(x)
		x, y, z = x+y, y+z, z+probeMul
		if all&1 == 0 {
			return false
		}
		k -= atOnce
	}
	for range k {
		if f.bit(x)&1 == 0 {
			return false
		}
		x, y, z = x+y, y+z, z+probeMul
	}
	return true
}

// atOnce is how many probes MayContainHash tests with one branch.
const atOnce = 3

// bit returns a word whose lowest bit is the filter's bit at x. The other bits
// mean nothing.
func (f *Filter) bit(x uint64) uint64 {
	i, _ := bits.Mul64(x, f.m)
	return f.words[i>>6] >> (i & 63)
}

// CheckAndAddHash is CheckAndAdd for the key with this hash (see Hash).
func (f *Filter) CheckAndAddHash(h1, h2 uint64) bool {
	x, y, z := h1, h2, thirdWord(h1, h2)
	all := uint64(1)
	for range f.k {
		i, _ := bits.Mul64(x, f.m)
		w := &f.words[i>>6]
		all &= *w >> (i & 63)
		*w |= 1 << (i & 63)
		x += y
		y += z
		z += probeMul
	}
	f.count++
	return all == 1
}

// Count returns how many keys were added. A key that was added twice counts twice. After
// Merge it is the sum of both filters, in which the keys of both count twice. After
// Intersect it is EstimatedCount, rounded, but at most the smaller count of the two.
// EstimatedCount counts different keys only.
func (f *Filter) Count() uint64 { return f.count }

// Cap returns the number of bits, m.
func (f *Filter) Cap() uint64 { return f.m }

// K returns the number of probes.
func (f *Filter) K() int { return f.k }

// SizeBytes returns the memory that the bits take.
func (f *Filter) SizeBytes() int { return len(f.words) * 8 }

// ones counts the bits that are set.
func (f *Filter) ones() (n uint64) {
	for _, w := range f.words {
		n += uint64(bits.OnesCount64(w))
	}
	return n
}

// FillRatio returns the share of bits that are set. It counts them, which takes
// 0.1 ms for a megabyte.
func (f *Filter) FillRatio() float64 {
	if f.m == 0 {
		return 1
	}
	return float64(f.ones()) / float64(f.m)
}

// EstimatedFillRatio returns the FillRatio that is expected after Count different keys: 1 -
// e^(-k·n/m). It does not count bits.
func (f *Filter) EstimatedFillRatio() float64 {
	if f.m == 0 {
		return 1
	}
	return SizeFill(f.m, f.k, f.count)
}

// EstimatedCount estimates the number of different keys from the share of bits that are
// set: -m/k · ln(1 - fill), by Swamidass and Baldi. With 10,000 keys it is right to about
// one per cent. It is +Inf if all bits are set. It counts bits: see FillRatio.
func (f *Filter) EstimatedCount() float64 { return SizeCount(f.m, f.k, f.ones()) }

// FPR returns the share of absent keys that pass with the bits that are set at the moment:
// FillRatio to the power of k. It counts bits: see FillRatio.
func (f *Filter) FPR() float64 { return math.Pow(f.FillRatio(), float64(max(f.k, 1))) }

// Reset removes all keys. It keeps the memory.
func (f *Filter) Reset() {
	clear(f.words)
	f.count = 0
}

// Clone returns a copy. Changes of one do not change the other.
func (f *Filter) Clone() *Filter {
	c := *f
	c.words = append([]uint64(nil), f.words...)
	return &c
}

// Merge adds all keys of other, as if each had been added to f. If other differs in bits,
// probes or hash function, the error is ErrMismatch, and f stays as it was.
func (f *Filter) Merge(other *Filter) error {
	if err := f.match(other, "merge"); err != nil {
		return err
	}
	for i, w := range other.words {
		f.words[i] |= w
	}
	f.count += other.count
	return nil
}

// Intersect keeps in f what may be in both filters: all keys that both have. Its rate of
// false positives is at most the lower one of the two. It is higher than the rate of a
// filter that was made of the common keys only, because f keeps bits that are set by other
// keys in both. The errors are those of Merge.
func (f *Filter) Intersect(other *Filter) error {
	if err := f.match(other, "intersect"); err != nil {
		return err
	}
	for i, w := range other.words {
		f.words[i] &= w
	}
	f.count = min(f.count, other.count, whole(math.Round(f.EstimatedCount())))
	return nil
}

// match returns ErrMismatch unless the bits of f and other mean the same. doing
// names the operation in the error.
func (f *Filter) match(other *Filter, doing string) error {
	if f.m != other.m || f.k != other.k || f.m == 0 {
		return fmt.Errorf("bloom: %s: %w: %d bits and %d probes, other %d and %d", doing, ErrMismatch, f.m, f.k, other.m, other.k)
	}
	if !f.hash.same(&other.hash) {
		return fmt.Errorf("bloom: %s: %w: the hash functions are not known to be the same", doing, ErrMismatch)
	}
	return nil
}
