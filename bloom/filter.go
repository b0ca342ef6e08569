package bloom

import (
	"errors"
	"fmt"
	"math"

	"github.com/shaledb/shale/bloom/internal/bitarray"
	"github.com/shaledb/shale/bloom/internal/form"
)

// Filter is the classic Bloom filter: an array of m bits, of which each key sets k,
// anywhere in the array. It is the one to begin with. It takes keys one by one, and among
// the filters that do so it has the fewest bits for a given rate of false positives.
//
// Memory: 9.59 bits a key at 1 %, 14.38 at 0.1 %, and as much again for each further digit
// ([SizeBits]), rounded up to whole words of 64 bits.
//
// Time, with keys of 16 bytes and hashing included: if the filter fits into the cache, it
// takes 17 ns to add a key, 15 to ask for an absent one and 16 for a present one. If it
// does not fit, these take 65 to 200 ns: an absent key costs three cache lines, which are
// loaded in parallel, a present one k. (A question to a Blocked costs one line either way.)
//
// False is certain. The share of absent keys that pass is the share of theory, within 5 %
// and what chance allows, from 10 keys to 10 million and from a rate of 0.3 to one of 1e-6.
// In filters for 10 keys at 1e-4, 0.1136 ± 0.0006 ‰ passed; 0.1143 ‰ would with independent
// probes. ([SizeFPR] says 0.0987 ‰ there. Its formula is made for many keys: it is 16 % too
// low at 10 keys, and 1.5 % at 100.)
//
// The probes are those of enhanced double hashing (Dillinger and Manolios 2004). A position
// advances by a step, and the step itself changes from probe to probe. Package
// bitarray has the formula. With plain double hashing, where the step is constant, some
// keys share whole sequences of positions: 12 times the share of theory passes at 10 keys
// and 1e-4, and 1400 times that share at 1e-6. With a constant as the third word, in place
// of bits of the hash, it still is 11 % more, and four times as much.
//
// Any number of goroutines may ask a Filter at once, as long as none changes it. The zero
// Filter answers maybe to every key, keeps none that is added, and cannot be written. It is
// for UnmarshalBinary, UnmarshalText and ReadFrom.
//
// A filter all of whose bits are set answers maybe to every key, and stands for the set of all keys: united
// with another it stays as it is, and intersected with another it becomes that one.
type Filter struct {
	bits bitarray.Array
	hash HashFunc

	// What the filter was made for, for String. The serialized form does not have these: they are 0 then.
	plannedKeys uint64
	plannedFPR  float64
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
	// united with its clones only.
	HashID HashID
}

// MaxProbes is the largest number of probes that a filter may have.
const MaxProbes = 64

const maxFilterBits = 8 * form.MaxBytes

// ErrMismatch says that two filters differ in size, probes or hash function. So a bit of
// one does not mean the same as this bit of the other.
var ErrMismatch = errors.New("filters differ in shape or hash")

// New returns an empty filter for n keys at the false positive rate p, with
// Murmur3. An n of 0 counts as 1.
//
// It panics with [NewFilter]'s error if there is no such filter: p is not between 0 and 1, or
// the filter would have more than 128 GiB, or 1 GiB where an int has 32 bits. Use NewFilter
// for numbers that come from outside of the program.
func New(n uint64, p float64) *Filter {
	if p == 0 {
		p = math.NaN() // NewFilter would take 0 for the default
	}
	return Must(NewFilter(FilterOptions{Keys: max(n, 1), FPR: p}))
}

// NewFilter returns an empty filter. Its error names the option that is wrong.
func NewFilter(o FilterOptions) (*Filter, error) {
	hash, err := NewHashFunc(o.Hasher, o.Hash, o.HashID)
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
	f := &Filter{bits: bitarray.Make(m, k), hash: hash, plannedKeys: o.Keys}
	if o.Bits == 0 {
		f.plannedFPR = o.FPR
	}
	return f, nil
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

// Hash returns the hash of key by the filter's function, for AddHash, MayContainHash and
// CheckAndAddHash. A key that is asked of several filters has to be hashed only once.
func (f *Filter) Hash(key []byte) (h1, h2 uint64) { return f.hash.Hash128(key) }

// AddHash adds the key with this hash (see Hash).
func (f *Filter) AddHash(h1, h2 uint64) { f.bits.Add(h1, h2) }

// MayContainHash is MayContain for the key with this hash (see Hash).
func (f *Filter) MayContainHash(h1, h2 uint64) bool { return f.bits.Has(h1, h2) }

// CheckAndAddHash is CheckAndAdd for the key with this hash (see Hash).
func (f *Filter) CheckAndAddHash(h1, h2 uint64) bool { return f.bits.CheckAndAdd(h1, h2) }

// Count returns how many keys were added. A key that was added twice counts twice. After
// Union it is the sum of both filters, in which the keys of both count twice. After
// Intersect it is EstimatedCount, rounded, but at most the smaller count of the two.
// EstimatedCount counts different keys only.
func (f *Filter) Count() uint64 { return f.bits.Count }

// Cap returns the number of bits, m.
func (f *Filter) Cap() uint64 { return f.bits.M }

// K returns the number of probes.
func (f *Filter) K() int { return f.bits.K }

// SizeBytes returns the memory that the bits take.
func (f *Filter) SizeBytes() int { return f.bits.SizeBytes() }

// FillRatio returns the share of bits that are set. It counts them, which takes
// 0.1 ms for a megabyte.
func (f *Filter) FillRatio() float64 { return f.bits.Fill() }

// EstimatedFillRatio returns the FillRatio that is expected after Count different keys: 1 -
// e^(-k·n/m). It does not count bits.
func (f *Filter) EstimatedFillRatio() float64 {
	if f.bits.M == 0 {
		return 1
	}
	return SizeFill(f.bits.M, f.bits.K, f.bits.Count)
}

// EstimatedCount estimates the number of different keys from the share of bits that are
// set: -m/k · ln(1 - fill), by Swamidass and Baldi. With 10,000 keys it is right to about
// one per cent. It is +Inf if all bits are set. It counts bits: see FillRatio.
func (f *Filter) EstimatedCount() float64 { return SizeCount(f.bits.M, f.bits.K, f.bits.Ones()) }

// FPR returns the share of absent keys that pass with the bits that are set at the moment:
// FillRatio to the power of k. It counts bits: see FillRatio.
func (f *Filter) FPR() float64 { return f.bits.FPR() }

// Reset removes all keys. It keeps the memory, and with it bits, probes and hash function: for another rate
// or function make a new filter. Bits mean keys only by the function that set them.
func (f *Filter) Reset() { f.bits.Reset() }

// Clone returns a copy. Changes of one do not change the other.
func (f *Filter) Clone() *Filter {
	c := *f
	c.bits = f.bits.Clone()
	return &c
}

// Union adds all keys of other, as if each had been added to f. If other differs in bits,
// probes or hash function, the error is [ErrMismatch], and f stays as it was.
func (f *Filter) Union(other *Filter) error {
	if err := f.match(other, "union"); err != nil {
		return err
	}
	f.bits.Own()
	for i, w := range other.bits.Words {
		f.bits.Words[i] |= w
	}
	f.bits.Count += other.bits.Count
	return nil
}

// Intersect keeps in f what may be in both filters: all keys that both have. Its rate of
// false positives is at most the lower one of the two. It is higher than the rate of a
// filter that was made of the common keys only, because f keeps bits that are set by other
// keys in both. The errors are those of Union.
func (f *Filter) Intersect(other *Filter) error {
	if err := f.match(other, "intersect"); err != nil {
		return err
	}
	f.bits.Own()
	for i, w := range other.bits.Words {
		f.bits.Words[i] &= w
	}
	f.bits.Count = min(f.bits.Count, other.bits.Count, form.Whole(math.Round(f.EstimatedCount())))
	return nil
}

// match returns ErrMismatch unless the bits of f and other mean the same. doing
// names the operation in the error.
func (f *Filter) match(other *Filter, doing string) error {
	if f.bits.M != other.bits.M || f.bits.K != other.bits.K || f.bits.M == 0 {
		return mismatch(doing, "%d bits and %d probes, other %d and %d", f.bits.M, f.bits.K, other.bits.M, other.bits.K)
	}
	if !f.hash.Same(&other.hash) {
		return mismatch(doing, "the hash functions are not known to be the same")
	}
	return nil
}

// mismatch returns an ErrMismatch that says what differs.
func mismatch(doing, format string, args ...any) error {
	return fmt.Errorf("bloom: %s: %w: %s", doing, ErrMismatch, fmt.Sprintf(format, args...))
}
