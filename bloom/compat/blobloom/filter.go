package blobloom

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"strings"
	"unsafe"
)

const (
	// BlockBits is the number of bits of a block. All bits of a key are in one block.
	BlockBits = 512
	// MaxComment is how many bytes a comment has at most.
	MaxComment = 44

	blockBytes = BlockBits / 8
	// maxBlocks is the limit of the format.
	maxBlocks = 1 << 32
	// maxHashes is more than any rate needs. Filters with more are refused, because a
	// question to them would take extremely long.
	maxHashes = 1 << 16
)

var (
	// ErrParameters says that there is no filter as it was asked for, or that two filters
	// differ and cannot be combined.
	ErrParameters = errors.New("parameters of a filter")
	// ErrNoHash says that a key cannot be added, because the filter has no hash function.
	// Give it one in Options.Hash or by SetHash, or add hashes with AddHash.
	ErrNoHash = errors.New("the filter has no hash function")
)

// A Filter is a filter of blobloom. The zero value answers maybe to every key. It is for
// ReadFrom, UnmarshalBinary and UnmarshalText.
type Filter struct {
	blocks []byte // blockBytes for each of 1 to maxBlocks blocks
	shared bool   // blocks are the caller's: they are copied before the first change
	hashes uint32 // 1 to maxHashes
	note   string // the comment

	hash func(key []byte) uint64 // nil if there is none
}

// Options say how large a filter is, and how it hashes.
type Options struct {
	// Keys is the number of expected keys. 0 counts as 1.
	Keys uint64
	// FPR is the false positive rate with that many keys, between 0 and 1. 0 means 0.01.
	FPR float64
	// Bits and Hashes are the numbers that the peer's New takes. If Bits is not 0 they
	// count, and Keys and FPR do not. Bits are rounded up to whole blocks, and Hashes below
	// 2 count as 2. The peer's Optimize chooses numbers in a way of its own: to combine a
	// filter with one of the peer, take those of the peer.
	Bits   uint64
	Hashes int
	// Comment is written with the filter: at most MaxComment bytes, none of them zero.
	// It is the place for the name of the hash function.
	Comment string
	// Hash hashes keys for Add, MayContain and the like. It must mix every bit of the key
	// into all 64 bits, and several goroutines may call it at once. Without it there are
	// only the methods that take hashes.
	Hash func(key []byte) uint64
}

// New returns an empty filter for n keys at the false positive rate p, whose keys are hashed
// by hash. See NewFilter.
func New(n uint64, p float64, hash func(key []byte) uint64) (*Filter, error) {
	if !(p > 0 && p < 1) {
		return nil, fmt.Errorf("blobloom: new filter: %w: rate %v is not between 0 and 1", ErrParameters, p)
	}
	return NewFilter(Options{Keys: n, FPR: p, Hash: hash})
}

// NewFilter returns an empty filter. The error is ErrParameters for a rate that is not
// between 0 and 1 or that no blocked filter reaches, for more than 2^41 bits or more than
// 65,536 hashes, and for a comment that the format cannot hold.
func NewFilter(o Options) (*Filter, error) {
	blocks, hashes := (o.Bits+BlockBits-1)/BlockBits, max(o.Hashes, 2)
	switch {
	case o.Bits > maxBlocks*BlockBits:
		blocks = maxBlocks + 1 // refused below; the sum above may have wrapped around
	case o.Bits == 0:
		p := o.FPR
		if p == 0 {
			p = 0.01
		}
		if !(p > 0 && p < 1) {
			return nil, fmt.Errorf("blobloom: new filter: %w: rate %v is not between 0 and 1", ErrParameters, p)
		}
		if blocks, hashes = sizes(max(o.Keys, 1), p); blocks == 0 {
			return nil, fmt.Errorf("blobloom: new filter: %w: a blocked filter of %d keys does not reach rate %v, ask for a higher one", ErrParameters, o.Keys, p)
		}
	}
	if blocks > min(maxBlocks, math.MaxInt/blockBytes) || hashes > maxHashes {
		return nil, fmt.Errorf("blobloom: new filter: %w: %d bits and %d hashes are too many", ErrParameters, o.Bits, o.Hashes)
	}
	f := &Filter{blocks: make([]byte, blocks*blockBytes), hashes: uint32(hashes), hash: o.Hash}
	if err := f.SetComment(o.Comment); err != nil {
		return nil, err
	}
	return f, nil
}

// SetHash sets the function that hashes keys for Add, MayContain and the like. Reading a
// filter keeps it.
func (f *Filter) SetHash(hash func(key []byte) uint64) { f.hash = hash }

// Comment returns the comment that is stored with the filter.
func (f *Filter) Comment() string { return f.note }

// SetComment sets the comment that is stored with the filter. The error is ErrParameters if
// it has more than MaxComment bytes, or a zero.
func (f *Filter) SetComment(s string) error {
	if len(s) > MaxComment || strings.IndexByte(s, 0) >= 0 {
		return fmt.Errorf("blobloom: set comment: %w: %q has more than %d bytes, or a zero", ErrParameters, s, MaxComment)
	}
	f.note = strings.Clone(s)
	return nil
}

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
	case len(f.blocks) == 0:
		return fmt.Errorf("blobloom: add: %w: no bits, make the filter with NewFilter or read one", ErrParameters)
	case f.hash == nil:
		return fmt.Errorf("blobloom: add: %w", ErrNoHash)
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

// AddHash adds a key by its hash, as the peer's Add does. It does nothing to the zero value.
func (f *Filter) AddHash(h uint64) {
	if len(f.blocks) == 0 {
		return
	}
	f.own()
	b, at, step := f.locate(h)
	for i := uint32(1); i < f.hashes; i++ {
		at += step
		step += i
		b[at%BlockBits>>3] |= 1 << (at & 7)
	}
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
// Has does. False is certain.
func (f *Filter) MayContainHash(h uint64) bool {
	if len(f.blocks) == 0 {
		return true
	}
	b, at, step := f.locate(h)
	for i := uint32(1); i < f.hashes; i++ {
		at += step
		step += i
		if b[at%BlockBits>>3]&(1<<(at&7)) == 0 {
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

// locate returns the block of a hash, and with what its bits begin. The low half of the hash
// chooses the block; both halves then choose the bits by enhanced double hashing (Dillinger
// and Manolios 2004). Requires: the filter has blocks.
func (f *Filter) locate(h uint64) (block *[blockBytes]byte, at, step uint32) {
	n := uint64(len(f.blocks) / blockBytes)
	i := uint64(uint32(h)) * n >> 32
	if n == maxBlocks {
		i = 0 // as the peer does, in whose 32 bits the number of blocks is then 0
	}
	return (*[blockBytes]byte)(f.blocks[i*blockBytes:]), uint32(h >> 32), uint32(h)
}

// own makes the blocks the filter's own.
func (f *Filter) own() {
	if f.shared {
		f.blocks, f.shared = append([]byte(nil), f.blocks...), false
	}
}

// Cap returns the number of bits.
func (f *Filter) Cap() uint64 { return 8 * uint64(len(f.blocks)) }

// Hashes returns the number of hashes, as the peer counts them: one more than the bits that
// a key sets.
func (f *Filter) Hashes() int { return int(f.hashes) }

// SizeBytes returns the memory of the bits.
func (f *Filter) SizeBytes() int { return len(f.blocks) }

// FillRatio returns the share of the bits that are set.
func (f *Filter) FillRatio() float64 {
	if len(f.blocks) == 0 {
		return 1
	}
	all := 0
	for ones := range f.onesOfBlocks {
		all += ones
	}
	return float64(all) / float64(f.Cap())
}

// FPR returns the share of absent keys that pass with the bits that are set at the moment:
// the mean over the blocks.
func (f *Filter) FPR() float64 {
	if len(f.blocks) == 0 {
		return 1
	}
	sum := 0.0
	for ones := range f.onesOfBlocks {
		sum += math.Pow(float64(ones)/BlockBits, float64(f.hashes-1))
	}
	return sum / float64(len(f.blocks)/blockBytes)
}

// EstimatedCount estimates from the bits that are set how many different keys were added:
// the most likely number, by blocks (Papapetrou, Siberski and Nejdl 2010), like the peer's
// Cardinality. It is infinite if a block is full.
func (f *Filter) EstimatedCount() float64 {
	if len(f.blocks) == 0 || f.hashes < 2 {
		return math.Inf(1)
	}
	n := 0.0
	for ones := range f.onesOfBlocks {
		n += math.Log1p(-float64(ones) / BlockBits)
	}
	return max(0, n/(float64(f.hashes-1)*math.Log1p(-1.0/BlockBits)))
}

// onesOfBlocks yields the number of bits that are set in each block.
func (f *Filter) onesOfBlocks(yield func(int) bool) {
	for b := f.blocks; len(b) > 0; b = b[blockBytes:] {
		ones := 0
		for i := 0; i < blockBytes; i += 8 {
			ones += bits.OnesCount64(binary.LittleEndian.Uint64(b[i:]))
		}
		if !yield(ones) {
			return
		}
	}
}

// String describes the filter in one line. It counts bits.
func (f Filter) String() string {
	if len(f.blocks) == 0 {
		return "blobloom.Filter: the zero value, which says maybe to every key"
	}
	return fmt.Sprintf("blobloom.Filter: about %.0f keys in %d bits, %.3g %% of absent keys pass", f.EstimatedCount(), f.Cap(), 100*f.FPR())
}

// Reset removes all keys.
func (f *Filter) Reset() {
	f.own()
	clear(f.blocks)
}

// Clone returns a copy. Changes of one do not change the other.
func (f *Filter) Clone() *Filter {
	c := *f
	c.blocks, c.shared = append([]byte(nil), f.blocks...), false
	return &c
}

// Union adds the keys of another filter. The error is ErrParameters if they differ in bits
// or hashes. That both were made with the same hash function the caller must know.
func (f *Filter) Union(other *Filter) error {
	return f.combine("union", other, func(a, b uint64) uint64 { return a | b })
}

// Intersect keeps the bits that are set in another filter too: those of the keys that are in
// both, and some of others. The error is that of Union.
func (f *Filter) Intersect(other *Filter) error {
	return f.combine("intersect", other, func(a, b uint64) uint64 { return a & b })
}

func (f *Filter) combine(what string, other *Filter, op func(a, b uint64) uint64) error {
	if len(f.blocks) != len(other.blocks) || f.hashes != other.hashes {
		return fmt.Errorf("blobloom: %s: %w: %d bits, %d hashes and %d bits, %d hashes", what, ErrParameters, f.Cap(), f.hashes, other.Cap(), other.hashes)
	}
	f.own()
	for i := 0; i < len(f.blocks); i += 8 {
		a := f.blocks[i:]
		binary.LittleEndian.PutUint64(a, op(binary.LittleEndian.Uint64(a), binary.LittleEndian.Uint64(other.blocks[i:])))
	}
	return nil
}

// stringBytes returns the bytes of s without a copy. They must not be changed.
func stringBytes(s string) []byte { return unsafe.Slice(unsafe.StringData(s), len(s)) }
