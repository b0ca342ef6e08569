package redisbloom

import (
	"errors"
	"fmt"
	"math"
	"math/bits"

	"github.com/shaledb/shale/bloom/internal/form"
)

// ErrFull is the error of Add for a NONSCALING filter that has as many items as it was made
// for. The text is that of Redis.
var ErrFull = errors.New("non scaling filter is full")

// ErrParameters says that there is no filter as it was asked for, or no next link.
var ErrParameters = errors.New("parameters of a filter")

// The values that Redis uses if a command does not set them.
const (
	DefaultCapacity  = 100
	DefaultErrorRate = 0.01
	DefaultExpansion = 2
)

const (
	// maxErrorRate replaces all higher rates, as in Redis.
	maxErrorRate = 0.25
	// maxCapacity and maxExpansion are the largest values that Redis 8 accepts.
	maxCapacity  = 1 << 30
	maxExpansion = 32768
	// tightening is the error of a link divided by the error of the link before.
	tightening = 0.5
	// maxLinkBytes is more than any server can hold.
	maxLinkBytes = 1 << 40
	// maxHashes is the number of hash functions for the smallest positive error rate.
	maxHashes = 1075
)

// The options of a chain, as bits. Part of the format.
const (
	noRounding  = 1 // the number of bits is used as computed, and not rounded up to a power of two
	entsAreBits = 2 // the capacity is given as an exponent: 2^capacity bits
	force64     = 4 // 64-bit hashes
	noScaling   = 8 // a NONSCALING filter
	knownFlags  = noRounding | entsAreBits | force64 | noScaling
)

// RedisBloom cuts these constants after 15 digits. They must be the same here,
// because the header stores bpe.
const (
	ln2        = 0.693147180559945
	ln2Squared = 0.480453013918201
)

// Options say how to make a filter. They are the arguments of BF.RESERVE.
type Options struct {
	// Capacity is the number of items that the first link is for, at most 2^30. 0
	// means DefaultCapacity.
	Capacity uint64
	// ErrorRate is the false positive rate of the whole filter, between 0 and 1. 0 means
	// DefaultErrorRate. A rate above 0.25 counts as 0.25, as in Redis 8.
	ErrorRate float64
	// Expansion is the capacity of a link divided by that of the link before, at most
	// 32768. 0 means DefaultExpansion.
	Expansion uint32
	// NonScaling allows one link only. The rate is reached at the capacity, with one hash
	// function less than in a scaling filter. Add then returns ErrFull.
	NonScaling bool
}

// A Filter is a filter of RedisBloom. The zero value has no links: it answers maybe to
// every key, and returns an error from Add. It is for UnmarshalBinary and UnmarshalText.
type Filter struct {
	links   []link
	items   uint64 // sum of the items of all links
	options uint32
	growth  uint32 // the expansion
}

// A link is one Bloom filter of the chain. link.check and Loader see to it that these hold:
//
//  1. bits is 8 times bytes, above 0, and len(bf) is bytes.
//  2. 2^n2 <= bits if n2 is not 0.
//  3. 1 <= hashes <= maxHashes.
type link struct {
	bytes, bits uint64
	items       uint64
	errorRate   float64
	bpe         float64 // bits an entry, as RedisBloom computes them
	hashes      uint32
	entries     uint64 // number of items that the link is for
	n2          uint8  // 0, or positions are modulo 2^n2
	bf          []byte
}

// New returns an empty filter, like BF.RESERVE key errorRate capacity. As Redis
// does, it refuses zeros.
func New(capacity uint64, errorRate float64) (*Filter, error) {
	if capacity == 0 || errorRate == 0 {
		return nil, fmt.Errorf("redisbloom: new filter: %w: %d items at error rate %v", ErrParameters, capacity, errorRate)
	}
	return NewFilter(Options{Capacity: capacity, ErrorRate: errorRate})
}

// NewFilter returns an empty filter, like BF.RESERVE. The zero Options make the filter that
// BF.ADD makes if there is no filter yet.
func NewFilter(o Options) (*Filter, error) {
	f, err := newFilter(o)
	if err == nil {
		f.links[0].bf = make([]byte, f.links[0].bytes)
	}
	return f, err
}

// newFilter is NewFilter without the bits.
func newFilter(o Options) (*Filter, error) {
	if o.Capacity == 0 {
		o.Capacity = DefaultCapacity
	}
	if o.ErrorRate == 0 {
		o.ErrorRate = DefaultErrorRate
	}
	if o.Expansion == 0 {
		o.Expansion = DefaultExpansion
	}
	switch {
	case !(o.ErrorRate > 0 && o.ErrorRate < 1):
		return nil, fmt.Errorf("redisbloom: new filter: %w: error rate %v is not between 0 and 1", ErrParameters, o.ErrorRate)
	case o.Capacity > maxCapacity:
		return nil, fmt.Errorf("redisbloom: new filter: %w: capacity %d", ErrParameters, o.Capacity)
	case o.Expansion > maxExpansion:
		return nil, fmt.Errorf("redisbloom: new filter: %w: expansion %d", ErrParameters, o.Expansion)
	}
	f := &Filter{options: noRounding | force64, growth: o.Expansion}
	rate := min(o.ErrorRate, maxErrorRate)
	if o.NonScaling {
		f.options |= noScaling
	} else {
		rate *= tightening
	}
	if err := f.addLink(o.Capacity, rate); err != nil {
		return nil, fmt.Errorf("redisbloom: new filter: %w", err)
	}
	return f, nil
}

// addLink adds an empty link for entries items at the given rate, without its bits.
func (f *Filter) addLink(entries uint64, rate float64) error {
	l := link{errorRate: rate, bpe: -logOf(rate) / ln2Squared, entries: entries}
	need := float64(entries) * l.bpe
	if !(rate > 0) || !(need < 8*maxLinkBytes) || need > 4*math.MaxInt || f.options&entsAreBits != 0 {
		return fmt.Errorf("%w: a link of %d items at error rate %v", ErrParameters, entries, rate)
	}
	bits := max(uint64(need), 1)
	if f.options&noRounding == 0 {
		// Filters of old releases have a power of two of bits, and a link is for
		// as many items as fill them.
		l.n2 = uint8(math.Logb(max(need, 1)) + 1)
		bits = 1 << l.n2
		l.entries += uint64(math.Trunc(float64(bits)-need) / l.bpe)
	}
	l.bytes = (bits + 63) / 64 * 8
	l.bits = 8 * l.bytes
	l.hashes = hashesOf(l.bpe)
	f.links = append(f.links, l)
	return nil
}

// hashesOf returns the number of hash functions for bpe bits an entry.
func hashesOf(bpe float64) uint32 { return uint32(math.Ceil(ln2 * bpe)) }

// Add adds a key if it is absent, as BF.ADD does. If the last link is full, the filter grows
// by a link; only then Add allocates.
//
// The error is [ErrFull] if the filter does not scale, and [ErrParameters] if there can be no
// next link. The key is not added then.
func (f *Filter) Add(key []byte) error {
	_, err := f.CheckAndAdd(key)
	return err
}

// CheckAndAdd is Add, and reports whether the key may have been there before; then it is not
// added again. (BF.ADD returns the opposite.)
func (f *Filter) CheckAndAdd(key []byte) (maybe bool, err error) {
	if len(f.links) == 0 {
		return true, fmt.Errorf("redisbloom: add: %w: no links", ErrParameters)
	}
	a, b := hash(key)
	if f.has(a, b) {
		return true, nil
	}
	if err := f.count(); err != nil {
		return false, err
	}
	last := &f.links[len(f.links)-1]
	if last.bf == nil { // it is new
		last.bf = make([]byte, last.bytes)
	}
	last.set(a, b)
	return false, nil
}

// count counts an item of the last link. If that is full, it adds a link first, without its bits.
func (f *Filter) count() error {
	last := &f.links[len(f.links)-1]
	if last.items >= last.entries {
		if f.options&noScaling != 0 {
			return fmt.Errorf("redisbloom: add: %w", ErrFull)
		}
		if last.entries == 0 || f.growth == 0 || f.growth > maxExpansion || last.entries > math.MaxUint64/uint64(f.growth) {
			return fmt.Errorf("redisbloom: add: %w: %d items, expansion %d", ErrParameters, last.entries, f.growth)
		}
		if err := f.addLink(last.entries*uint64(f.growth), last.errorRate*tightening); err != nil {
			return fmt.Errorf("redisbloom: add: %w", err)
		}
		last = &f.links[len(f.links)-1]
	}
	last.items++
	f.items++
	return nil
}

// MayContain reports whether a key may be in the filter, as BF.EXISTS does. False
// is certain.
func (f *Filter) MayContain(key []byte) bool { return f.has(hash(key)) }

// AddString is Add of the bytes of s.
func (f *Filter) AddString(s string) error { return f.Add(form.Bytes(s)) }

// MayContainString is MayContain of the bytes of s.
func (f *Filter) MayContainString(s string) bool { return f.MayContain(form.Bytes(s)) }

// Count returns how many keys were added, as BF.CARD does. Keys that may have been there
// before are not counted.
func (f *Filter) Count() uint64 { return f.items }

// SizeBytes returns the memory that the bits of all links take.
func (f *Filter) SizeBytes() (n int) {
	for i := range f.links {
		n += len(f.links[i].bf)
	}
	return n
}

// Info is the result of BF.INFO.
type Info struct {
	Capacity  uint64 // number of items that all links are for
	Size      uint64 // bytes that Redis reports on a 64-bit machine
	Filters   int    // number of links
	Items     uint64
	Expansion uint32 // 0 for NONSCALING, where Redis returns nil
}

// Info returns what BF.INFO returns for the filter.
func (f *Filter) Info() Info {
	// 32 and 64 are the sizes of the structs SBChain and SBLink in Redis.
	i := Info{Size: 32 + 64*uint64(len(f.links)), Filters: len(f.links), Items: f.items, Expansion: f.growth}
	if f.options&noScaling != 0 {
		i.Expansion = 0
	}
	for _, l := range f.links {
		i.Capacity += l.entries
		i.Size += l.bytes
	}
	return i
}

// FPR returns the share of absent keys that pass with the bits that are set at the moment: of
// each link FillRatio to the power of its number of hashes. It counts bits, which takes 0.1
// ms for a megabyte.
func (f *Filter) FPR() float64 {
	if len(f.links) == 0 {
		return 1
	}
	denied := 1.0
	for i := range f.links {
		denied *= 1 - f.links[i].fpr()
	}
	return 1 - denied
}

// fpr returns the share of absent keys that the link lets pass.
func (l *link) fpr() float64 {
	ones := 0
	for _, b := range l.bf {
		ones += bits.OnesCount8(b)
	}
	// Bits behind the modulus, which a damaged file may have, are never asked.
	return math.Pow(min(float64(ones)/float64(l.modulus()), 1), float64(l.hashes))
}

// String describes the filter in one line. The rate is that of FPR.
func (f Filter) String() string {
	if len(f.links) == 0 {
		return "redisbloom.Filter: the zero value, which says maybe to every key"
	}
	bits := uint64(0)
	for i := range f.links {
		bits += f.links[i].bits
	}
	return fmt.Sprintf("redisbloom.Filter: %d keys in %d bits, %.3g %% of absent keys pass", f.items, bits, 100*f.FPR())
}

// has reports whether one of the links may have the key with these hashes. It asks the
// newest link first, as Redis does.
func (f *Filter) has(a, b uint64) bool {
	for i := len(f.links) - 1; i >= 0; i-- {
		if f.links[i].has(a, b) {
			return true
		}
	}
	return len(f.links) == 0
}

// modulus returns the number modulo which positions are taken.
func (l *link) modulus() uint64 {
	if l.n2 > 0 {
		return 1 << l.n2
	}
	return l.bits
}

func (l *link) has(a, b uint64) bool {
	m := l.modulus()
	for range l.hashes {
		x := a % m
		if l.bf[x>>3]&(1<<(x&7)) == 0 {
			return false
		}
		a += b
	}
	return true
}

func (l *link) set(a, b uint64) {
	m := l.modulus()
	for range l.hashes {
		x := a % m
		l.bf[x>>3] |= 1 << (x & 7)
		a += b
	}
}
