package bloom

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
)

// Filter is the classic Bloom filter: m bits, of which a key sets k anywhere. It
// is the one to begin with: it takes keys one by one, and at one rate it has the
// fewest bits of the filters that do.
//
// Memory is 9.59 bits a key at 1 %, 14.38 at 0.1 %, and as much for each further
// digit (SizeBits), in whole words. In cache, with keys of 16 bytes and their hashing,
// it takes 17 ns to add one, 15 to ask for one that is not there and 16 for one that is; out of it 65 to 200:
// an absent key costs three cache lines, loaded side by side, a present one k. A
// Blocked costs one line either way.
//
// False is certain. What passes is what theory says, within 5 % and what chance
// allows, from 10 keys to 10 million and from 0.3 to 1e-6. Of filters for 10 keys at 1e-4, measured,
// 0.1136 ± 0.0006 ‰ pass, and 0.1143 would with independent probes. (SizeFPR, whose
// formula is made for many keys, says 0.0987: it is short by 16 % at 10 keys, by
// 1.5 % at 100.)
//
// The probes are those of enhanced double hashing (Dillinger and Manolios 2004):
// two words of hash, advanced by additions whose differences differ too, here with a
// third word made of bits that the places of the first two do not feel. By plain
// double hashing keys share whole progressions of places: it lets pass 12 times what it
// should at 10 keys and 1e-4, 1400 times at 1e-6. With a constant as the third
// word it still is 11 % more, and four times.
//
// Not safe for use by several goroutines at once if one of them changes it. Any number
// of them may ask. The zero Filter says maybe to every key, keeps none that is added,
// and is an error to write. It is for UnmarshalBinary, UnmarshalText and ReadFrom.
type Filter struct {
	words []uint64
	m     uint64 // bits: 64 · len(words)
	k     int
	count uint64
	hash  hash128
}

// FilterOptions say how large a filter is. It needs Keys or Bits.
type FilterOptions struct {
	// Keys is how many different keys the filter is for. More may be added; then it
	// lets pass more than FPR.
	Keys uint64

	// FPR is the rate of false positives with Keys keys, above 0 and below 1. Default
	// DefaultFPR.
	FPR float64

	// Bits is the size, instead of what Keys and FPR ask for. It is rounded up to
	// whole words of 64.
	Bits uint64

	// Probes is k, up to MaxProbes. Default: the best for Keys in Bits; without
	// Bits or without Keys that for FPR.
	Probes int

	// Hasher is the hash function, if Hash is nil. Default Murmur3. With one with a secret
	// seed (HashSipHash) strangers cannot choose keys that pass.
	Hasher Hasher

	// Hash is a function of the caller's own, or one of package hashes. A key that
	// it gets is copied first.
	Hash Hash128

	// HashID names Hash in the serialized form: a number from FirstOwnHashID on.
	// Without it the filter cannot be serialized, nor merged with any but its
	// clones.
	HashID HashID
}

// MaxProbes is the most probes that a filter may have.
const MaxProbes = 64

// maxBytes keeps mistakes from asking for all the memory there is: 128 GiB, and 1 GiB
// where an int has 32 bits, so that no length of any form of a filter overflows one.
const maxBytes = min(1<<37, math.MaxInt/2)

const maxFilterBits = 8 * maxBytes

// ErrMismatch says that filters differ in size, probes or hash function, so that
// their bits do not mean the same.
var ErrMismatch = errors.New("filters differ in shape or hash")

// New returns an empty filter for n keys at the false positive rate p, with
// Murmur3. No keys count as one.
//
// It panics with NewFilter's error if there is no such filter: p is not between 0 and
// 1, or the filter would have more than 128 GiB, or 1 GiB where an int has 32 bits.
// NewFilter is for numbers that come from outside of the program.
func New(n uint64, p float64) *Filter {
	if p == 0 {
		p = math.NaN() // not the default
	}
	return made(NewFilter(FilterOptions{Keys: max(n, 1), FPR: p}))
}

// made panics with an error of a constructor for a shorter one that returns none.
func made[F any](f F, err error) F {
	if err != nil {
		panic(err)
	}
	return f
}

// NewFilter returns an empty filter, or an error that names the option that is
// wrong.
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

// shape returns the bits and probes that are asked for.
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

// AddString adds s, the same as its bytes.
func (f *Filter) AddString(s string) { f.AddHash(f.hash.of([]byte(s))) }

// MayContain tells whether key may have been added. False is certain. It
// allocates nothing.
func (f *Filter) MayContain(key []byte) bool { return f.MayContainHash(f.hash.of(key)) }

// Check is MayContain.
func (f *Filter) Check(key []byte) bool { return f.MayContainHash(f.hash.of(key)) }

// CheckString is MayContain of the bytes of s.
func (f *Filter) CheckString(s string) bool { return f.MayContainHash(f.hash.of([]byte(s))) }

// CheckAndAdd adds key and reports whether it may have been there before.
func (f *Filter) CheckAndAdd(key []byte) bool { return f.CheckAndAddHash(f.hash.of(key)) }

// Hash returns what the filter's hash function gives for key, for AddHash and its
// kin: a key that is asked of several filters is hashed once.
func (f *Filter) Hash(key []byte) (h1, h2 uint64) { return f.hash.of(key) }

// The probes of a key begin at h1 and advance by y, which begins at h2 and
// advances by z: x[i] = h1 + i·y + i(i-1)/2·z + i(i-1)(i-2)/6·probeMul. z has the bits
// of the hash that the positions of x and y, which are their top bits, hardly feel.
// Part of the file format, never changes.
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

// MayContainHash is MayContain of the key with this hash (see Hash).
//
// Half of the bits are set, so that nobody can foretell the answer of one: the
// first three are fetched side by side and judged at once.
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

const atOnce = 3

// bit returns a word whose lowest bit is that at x.
func (f *Filter) bit(x uint64) uint64 {
	i, _ := bits.Mul64(x, f.m)
	return f.words[i>>6] >> (i & 63)
}

// CheckAndAddHash is CheckAndAdd of the key with this hash (see Hash).
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

// Count returns how many keys were added, each as often as it was. After Merge it
// is the sum, where keys that both filters had count twice; after Intersect it is
// EstimatedCount, rounded, but at most the less of both. EstimatedCount knows
// different keys only.
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

// FillRatio returns the share of bits that are set. It counts them: 0.1 ms for a
// megabyte.
func (f *Filter) FillRatio() float64 {
	if f.m == 0 {
		return 1
	}
	return float64(f.ones()) / float64(f.m)
}

// EstimatedFillRatio returns what FillRatio is expected to be after so many
// different keys as Count, without counting bits: 1 - e^(-k·n/m).
func (f *Filter) EstimatedFillRatio() float64 {
	if f.m == 0 {
		return 1
	}
	return SizeFill(f.m, f.k, f.count)
}

// EstimatedCount returns how many different keys have set as many bits as are set:
// -m/k · ln(1 - fill), by Swamidass and Baldi. It is good to a per cent with 10,000
// keys, and +Inf if all bits are set. It counts bits: see FillRatio.
func (f *Filter) EstimatedCount() float64 { return SizeCount(f.m, f.k, f.ones()) }

// FPR returns the share of absent keys that pass with the bits that are set now:
// FillRatio to the power of k. It counts bits: see FillRatio.
func (f *Filter) FPR() float64 { return math.Pow(f.FillRatio(), float64(max(f.k, 1))) }

// Reset takes out all keys.
func (f *Filter) Reset() {
	clear(f.words)
	f.count = 0
}

// Clone returns a copy that shares nothing with f that changes.
func (f *Filter) Clone() *Filter {
	c := *f
	c.words = append([]uint64(nil), f.words...)
	return &c
}

// Merge adds all keys of other, as if each had been added to f. If other differs in
// bits, probes or hash function it is ErrMismatch, and f stays as it was.
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

// Intersect leaves what may be in both: every key that both filters have, and false
// positives at most at the rate of the better one. That is more than a filter of the
// keys in common would let pass, whose bits it has and others. Errors are those of
// Merge.
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

func (f *Filter) match(other *Filter, doing string) error {
	if f.m != other.m || f.k != other.k || f.m == 0 {
		return fmt.Errorf("bloom: %s: %w: %d bits and %d probes, other %d and %d", doing, ErrMismatch, f.m, f.k, other.m, other.k)
	}
	if !f.hash.same(&other.hash) {
		return fmt.Errorf("bloom: %s: %w: the hash functions are not known to be the same", doing, ErrMismatch)
	}
	return nil
}
