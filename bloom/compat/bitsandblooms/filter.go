package bitsandblooms

import (
	"errors"
	"fmt"
	"math"
	"math/bits"

	"github.com/shaledb/shale/bloom/internal/form"
)

// ErrParameters says that there is no filter as it was asked for, or that two filters
// differ and cannot be merged.
var ErrParameters = errors.New("parameters of a filter")

// A Filter is a filter of bits-and-blooms. The zero value answers maybe to every key. It is
// for ReadFrom, UnmarshalBinary, UnmarshalText and UnmarshalJSON.
type Filter struct {
	m, k   uint64 // bits, at least 1; probes, 1 to maxProbes
	length uint64 // of the bitset in bits; at least m
	words  []uint64
}

// maxProbes is more than any rate needs. Filters with more are refused, because a question
// to them would take extremely long.
const maxProbes = 1 << 16

// New returns an empty filter of m bits and k probes. As with the peer, zeros count as 1.
// The error is [ErrParameters] for more than 2^47 bits or more than 65,536 probes.
func New(m, k uint64) (*Filter, error) {
	m, k = max(m, 1), max(k, 1)
	if m > min(1<<47, 4*math.MaxInt) || k > maxProbes {
		return nil, fmt.Errorf("bitsandblooms: new filter: %w: %d bits, %d probes", ErrParameters, m, k)
	}
	return &Filter{m: m, k: k, length: m, words: make([]uint64, (m+63)/64)}, nil
}

// NewWithEstimates returns an empty filter for n keys at false positive rate p.
func NewWithEstimates(n uint64, p float64) (*Filter, error) {
	if n == 0 || !(p > 0 && p < 1) {
		return nil, fmt.Errorf("bitsandblooms: new filter: %w: %d keys at rate %v", ErrParameters, n, p)
	}
	return New(EstimateParameters(n, p))
}

// EstimateParameters returns the number of bits and probes that the peer chooses for n keys
// at the false positive rate p. Requires: n > 0, 0 < p < 1.
func EstimateParameters(n uint64, p float64) (m, k uint64) {
	bits := math.Ceil(-1 * float64(n) * math.Log(p) / math.Pow(math.Log(2), 2))
	m = math.MaxUint64
	if bits < math.MaxUint64 {
		m = uint64(bits)
	}
	return m, uint64(math.Ceil(math.Log(2) * bits / float64(n)))
}

// errZero is the error of adding to the zero Filter, which would lose the key.
var errZero = errors.New("bitsandblooms: add: the zero Filter takes no keys; make one with New")

// Add adds a key.
// The error is nil unless f is the zero Filter.
func (f *Filter) Add(key []byte) error {
	if f.m == 0 {
		return errZero
	}
	h := hashes(key)
	for i := range f.k {
		x := location(&h, i) % f.m
		f.words[x>>6] |= 1 << (x & 63)
	}
	return nil
}

// MayContain reports whether a key may be in the filter, as the peer's Test does.
// False is certain.
func (f *Filter) MayContain(key []byte) bool {
	if f.m == 0 {
		return true
	}
	h := hashes(key)
	for i := range f.k {
		x := location(&h, i) % f.m
		if f.words[x>>6]&(1<<(x&63)) == 0 {
			return false
		}
	}
	return true
}

// CheckAndAdd adds a key, and reports whether it may have been there before, as the peer's
// TestAndAdd does.
func (f *Filter) CheckAndAdd(key []byte) bool {
	if f.m == 0 {
		return true
	}
	h, there := hashes(key), true
	for i := range f.k {
		x := location(&h, i) % f.m
		bit := uint64(1) << (x & 63)
		there = there && f.words[x>>6]&bit != 0
		f.words[x>>6] |= bit
	}
	return there
}

// AddString is Add of the bytes of s.
func (f *Filter) AddString(s string) error { return f.Add(form.Bytes(s)) }

// MayContainString is MayContain of the bytes of s.
func (f *Filter) MayContainString(s string) bool { return f.MayContain(form.Bytes(s)) }

// SizeBytes returns the memory that the bits take.
func (f *Filter) SizeBytes() int { return 8 * len(f.words) }

// Cap returns m, the number of bits.
func (f *Filter) Cap() uint64 { return f.m }

// K returns the number of probes.
func (f *Filter) K() uint64 { return f.k }

// FillRatio returns the share of the bits that are set.
func (f *Filter) FillRatio() float64 {
	if f.m == 0 {
		return 1
	}
	return min(1, float64(f.ones())/float64(f.m))
}

// FPR returns the share of absent keys that pass with the bits that are set at the moment.
func (f *Filter) FPR() float64 { return math.Pow(f.FillRatio(), float64(f.k)) }

// EstimatedCount estimates from the bits that are set how many different keys were added, as
// the peer's ApproximatedSize does, but not rounded. It is +Inf if all bits are set.
func (f *Filter) EstimatedCount() float64 {
	if f.m == 0 {
		return math.Inf(1)
	}
	return max(0, -float64(f.m)/float64(f.k)*math.Log(1-f.FillRatio()))
}

// String describes the filter in one line. It counts bits.
func (f Filter) String() string {
	if f.m == 0 {
		return "bitsandblooms.Filter: the zero value, which says maybe to every key"
	}
	return fmt.Sprintf("bitsandblooms.Filter: about %.0f keys in %d bits, %.3g %% of absent keys pass", f.EstimatedCount(), f.m, 100*f.FPR())
}

// Reset removes all keys, as the peer's ClearAll does.
func (f *Filter) Reset() { clear(f.words) }

// Clone returns a copy. Changes of one do not change the other.
func (f *Filter) Clone() *Filter {
	c := *f
	c.words = append([]uint64(nil), f.words...)
	return &c
}

// Union adds the keys of another filter. The error is [ErrParameters] if they
// differ in bits or probes. The peer calls it Merge.
func (f *Filter) Union(other *Filter) error {
	if f.m != other.m || f.k != other.k {
		return fmt.Errorf("bitsandblooms: union: %w: %d bits, %d probes and %d bits, %d probes", ErrParameters, f.m, f.k, other.m, other.k)
	}
	// Only one of the filters may have words past m. Bits there belong to no key.
	for i := range min(len(f.words), len(other.words)) {
		f.words[i] |= other.words[i]
	}
	f.clearTail()
	return nil
}

// clearTail clears the bits of the last word that are past the length of the bitset.
func (f *Filter) clearTail() {
	if n := f.length & 63; n != 0 {
		f.words[len(f.words)-1] &= 1<<n - 1
	}
}

func (f *Filter) ones() (n uint64) {
	for _, w := range f.words {
		n += uint64(bits.OnesCount64(w))
	}
	return n
}
