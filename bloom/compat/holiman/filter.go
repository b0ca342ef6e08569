package holiman

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"unsafe"
)

var (
	// ErrParameters says that there is no filter as it was asked for, or that two filters
	// differ and cannot be united.
	ErrParameters = errors.New("parameters of a filter")
	// ErrNoHash says that a key cannot be added, because the filter has no hash function.
	// Give it one in Options.Hash or by SetHash, or add hashes with AddHash.
	ErrNoHash = errors.New("the filter has no hash function")
)

const (
	// minBits is the peer's limit.
	minBits = 2
	// maxProbes is more than any rate needs. Filters with more are refused, because a
	// question to them would take extremely long.
	maxProbes = 1 << 16
	// rotation is how far the hash is rotated for each probe. Part of the format.
	rotation = 17
)

// A Filter is a filter of holiman/bloomfilter. The zero value answers maybe to every key. It
// is for ReadFrom, UnmarshalBinary, UnmarshalText and UnmarshalJSON.
type Filter struct {
	bits   []byte   // the words, little-endian: bit i is bit i&7 of byte i>>3
	shared bool     // bits are the caller's: they are copied before the first change
	seeds  []uint64 // 1 to maxProbes; never changed, so that clones share them
	m      uint64   // bits
	n      uint64   // keys that were added

	hash func(key []byte) uint64 // nil if there is none
}

// Options say how large a filter is, and how it hashes.
type Options struct {
	// Keys is the number of expected keys. 0 counts as 1.
	Keys uint64
	// FPR is the false positive rate with that many keys, between 0 and 1. 0 means 0.01.
	FPR float64
	// Bits is the number of bits. If it is 0, it follows from Keys and FPR as with the peer's
	// NewOptimal.
	Bits uint64
	// Seeds makes the probes differ, one for each of them. To unite two filters give both the
	// same Bits and Seeds. If there are none, random ones are drawn, as many as suit Keys and
	// the number of bits. The slice is copied.
	Seeds []uint64
	// Hash hashes keys for Add, MayContain and the like. It must mix every bit of the key
	// into all 64 bits, and several goroutines may call it at once. Without it there are
	// only the methods that take hashes.
	Hash func(key []byte) uint64
}

// New returns an empty filter for n keys at the false positive rate p, with random seeds,
// like the peer's NewOptimal. Its keys are hashed by hash.
func New(n uint64, p float64, hash func(key []byte) uint64) (*Filter, error) {
	if !(p > 0 && p < 1) {
		return nil, fmt.Errorf("holiman: new filter: %w: rate %v is not between 0 and 1", ErrParameters, p)
	}
	return NewFilter(Options{Keys: n, FPR: p, Hash: hash})
}

// NewFilter returns an empty filter. The error is ErrParameters for a rate that is not
// between 0 and 1, for less than 2 or more than 2^47 bits, for more than 65,536 seeds, and
// for two seeds that are equal.
func NewFilter(o Options) (*Filter, error) {
	n, p, m := max(o.Keys, 1), o.FPR, o.Bits
	if p == 0 {
		p = 0.01
	}
	if !(p > 0 && p < 1) {
		return nil, fmt.Errorf("holiman: new filter: %w: rate %v is not between 0 and 1", ErrParameters, p)
	}
	if m == 0 {
		wanted := math.Ceil(-float64(n) * math.Log(p) / (math.Ln2 * math.Ln2))
		m = max(minBits, uint64(min(wanted, 1<<48)))
	}
	if m < minBits || m > min(1<<47, 4*math.MaxInt) {
		return nil, fmt.Errorf("holiman: new filter: %w: %d bits", ErrParameters, m)
	}
	seeds, err := seedsOf(o.Seeds, math.Ceil(float64(m)*math.Ln2/float64(n)))
	if err != nil {
		return nil, err
	}
	return &Filter{bits: make([]byte, 8*wordsOf(m)), seeds: seeds, m: m, hash: o.Hash}, nil
}

// seedsOf returns a copy of the given seeds, or k random ones.
func seedsOf(given []uint64, k float64) ([]uint64, error) {
	seeds := slices.Clone(given)
	if len(given) == 0 {
		if k > maxProbes {
			return nil, fmt.Errorf("holiman: new filter: %w: %.0f probes, set Keys to as many as will be added", ErrParameters, k)
		}
		random := make([]byte, 8*max(1, int(k)))
		if _, err := rand.Read(random); err != nil {
			return nil, fmt.Errorf("holiman: new filter: %w", err)
		}
		seeds = wordsIn(random)
	}
	sorted := slices.Clone(seeds)
	slices.Sort(sorted)
	if len(seeds) > maxProbes || len(slices.Compact(sorted)) != len(seeds) {
		return nil, fmt.Errorf("holiman: new filter: %w: %d seeds, which must be at most %d and all different", ErrParameters, len(seeds), maxProbes)
	}
	return seeds, nil
}

// wordsIn returns the little-endian words in b.
func wordsIn(b []byte) []uint64 {
	words := make([]uint64, len(b)/8)
	for i := range words {
		words[i] = binary.LittleEndian.Uint64(b[8*i:])
	}
	return words
}

// wordsOf returns how many words m bits take.
func wordsOf(m uint64) uint64 { return m/64 + (m%64+63)/64 }

// SetHash sets the function that hashes keys for Add, MayContain and the like. Reading a
// filter keeps it.
func (f *Filter) SetHash(hash func(key []byte) uint64) { f.hash = hash }

// Add adds a key. The error is ErrNoHash if the filter has no hash function, and
// ErrParameters for the zero value.
func (f *Filter) Add(key []byte) error {
	if err := f.canAdd(); err != nil {
		return err
	}
	f.AddHash(f.hash(key))
	return nil
}

// AddString is Add of the bytes of s.
func (f *Filter) AddString(s string) error { return f.Add(stringBytes(s)) }

// AddKeys adds many keys. The errors are those of Add.
func (f *Filter) AddKeys(keys [][]byte) error {
	if err := f.canAdd(); err != nil {
		return err
	}
	for _, key := range keys {
		f.AddHash(f.hash(key))
	}
	return nil
}

// CheckAndAdd adds a key, and reports whether it may have been there before. Without a hash
// function it adds nothing, and returns true.
func (f *Filter) CheckAndAdd(key []byte) bool { return f.hash == nil || f.CheckAndAddHash(f.hash(key)) }

func (f *Filter) canAdd() error {
	switch {
	case f.m == 0:
		return fmt.Errorf("holiman: add: %w: no bits, make the filter with NewFilter or read one", ErrParameters)
	case f.hash == nil:
		return fmt.Errorf("holiman: add: %w", ErrNoHash)
	}
	return nil
}

// MayContain reports whether a key may be in the filter. False is certain. Without a hash
// function it is true for every key.
func (f *Filter) MayContain(key []byte) bool { return f.hash == nil || f.MayContainHash(f.hash(key)) }

// MayContainString is MayContain of the bytes of s.
func (f *Filter) MayContainString(s string) bool { return f.MayContain(stringBytes(s)) }

// MayContainKeys sets out[i] to MayContain of keys[i]. If out is longer than keys, the rest
// of it becomes true; if it is shorter, the rest of keys is not asked.
func (f *Filter) MayContainKeys(keys [][]byte, out []bool) {
	for i := range out {
		out[i] = i >= len(keys) || f.MayContain(keys[i])
	}
}

// AddHash adds a key by its hash, as the peer's AddHash does. It does nothing to the zero
// value.
func (f *Filter) AddHash(h uint64) {
	if f.m == 0 {
		return
	}
	f.own()
	for _, seed := range f.seeds {
		h = bits.RotateLeft64(h, rotation) ^ seed
		i := h % f.m
		f.bits[i>>3] |= 1 << (i & 7)
	}
	f.n++
}

// CheckAndAddHash adds a key by its hash, and reports whether it may have been there before.
// For the zero value it returns true.
func (f *Filter) CheckAndAddHash(h uint64) bool {
	there := f.MayContainHash(h)
	f.AddHash(h)
	return there
}

// AddMany adds many keys by their hashes.
func (f *Filter) AddMany(hashes []uint64) {
	for _, h := range hashes {
		f.AddHash(h)
	}
}

// MayContainHash reports whether a key with this hash may be in the filter, as the peer's
// ContainsHash does. False is certain.
func (f *Filter) MayContainHash(h uint64) bool {
	if f.m == 0 {
		return true
	}
	for _, seed := range f.seeds {
		h = bits.RotateLeft64(h, rotation) ^ seed
		i := h % f.m
		if f.bits[i>>3]&(1<<(i&7)) == 0 {
			return false
		}
	}
	return true
}

// MayContainMany sets out[i] to MayContainHash of hashes[i]. If out is longer than hashes,
// the rest of it becomes true; if it is shorter, the rest of hashes is not asked.
func (f *Filter) MayContainMany(hashes []uint64, out []bool) {
	for i := range out {
		out[i] = i >= len(hashes) || f.MayContainHash(hashes[i])
	}
}

// own makes the bits the filter's own.
func (f *Filter) own() {
	if f.shared {
		f.bits, f.shared = slices.Clone(f.bits), false
	}
}

// Cap returns m, the number of bits.
func (f *Filter) Cap() uint64 { return f.m }

// K returns the number of probes.
func (f *Filter) K() int { return len(f.seeds) }

// Seeds returns a copy of the seeds, for Options of a filter that can be united with
// this one.
func (f *Filter) Seeds() []uint64 { return slices.Clone(f.seeds) }

// Count returns how often keys were added, the same key each time: the peer's N.
func (f *Filter) Count() uint64 { return f.n }

// SizeBytes returns the memory of the bits.
func (f *Filter) SizeBytes() int { return len(f.bits) }

// FillRatio returns the share of the bits that are set.
func (f *Filter) FillRatio() float64 {
	if f.m == 0 {
		return 1
	}
	ones := 0
	for i := 0; i < len(f.bits); i += 8 {
		ones += bits.OnesCount64(binary.LittleEndian.Uint64(f.bits[i:]))
	}
	return float64(ones) / float64(f.m)
}

// FPR returns the share of absent keys that pass with the bits that are set at the moment.
func (f *Filter) FPR() float64 { return math.Pow(f.FillRatio(), float64(len(f.seeds))) }

// EstimatedCount estimates from the bits that are set how many different keys were added. It
// is infinite if all bits are set.
func (f *Filter) EstimatedCount() float64 {
	if f.m == 0 {
		return math.Inf(1)
	}
	return math.Log1p(-f.FillRatio()) / (float64(len(f.seeds)) * math.Log1p(-1/float64(f.m)))
}

// String describes the filter in one line. It counts bits.
func (f Filter) String() string {
	if f.m == 0 {
		return "holiman.Filter: the zero value, which says maybe to every key"
	}
	return fmt.Sprintf("holiman.Filter: %d keys in %d bits, %.3g %% of absent keys pass", f.n, f.m, 100*f.FPR())
}

// Reset removes all keys.
func (f *Filter) Reset() {
	f.own()
	clear(f.bits)
	f.n = 0
}

// Clone returns a copy. Changes of one do not change the other.
func (f *Filter) Clone() *Filter {
	c := *f
	c.bits, c.shared = slices.Clone(f.bits), false
	return &c
}

// Union adds the keys of another filter, like the peer's UnionInPlace. The error is
// ErrParameters if they differ in bits or seeds. That both were made with the same hash
// function the caller must know.
func (f *Filter) Union(other *Filter) error {
	if f.m != other.m || !slices.Equal(f.seeds, other.seeds) {
		return fmt.Errorf("holiman: union: %w: %d bits, %d seeds and %d bits, %d seeds, or other seeds; make one from the other's Cap and Seeds",
			ErrParameters, f.m, len(f.seeds), other.m, len(other.seeds))
	}
	f.own()
	for i, b := range other.bits {
		f.bits[i] |= b
	}
	f.n += other.n
	return nil
}

// stringBytes returns the bytes of s without a copy. They must not be changed.
func stringBytes(s string) []byte { return unsafe.Slice(unsafe.StringData(s), len(s)) }
