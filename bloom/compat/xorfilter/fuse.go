package xorfilter

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"unsafe"

	peer "github.com/FastFilter/xorfilter"
)

// ErrParameters says that there is no filter as it was asked for.
var ErrParameters = errors.New("parameters of a filter")

const (
	// maxSegment is the longest segment that the peers make.
	maxSegment = 1 << 18
	// maxKeys is a limit because the builder counts places in 32 bits.
	maxKeys = 1 << 30
)

// An Unsigned is the type of a fingerprint. With 8, 16 or 32 bits one of 256, of 65,536 or
// of 4 billion absent keys passes.
type Unsigned interface{ uint8 | uint16 | uint32 }

// A Fuse is a binary fuse filter of the peer, with fingerprints of type T. The zero value
// answers maybe to every key. It is for ReadFrom, UnmarshalBinary and UnmarshalText.
type Fuse[T Unsigned] struct {
	// bytes are the fingerprints, little-endian. They are never changed.
	bytes  []byte
	seed   uint64
	length uint32 // places of a segment, a power of two
	count  uint32 // segments where the first of a key's three places may be; two more follow
	form   form
	keys   uint32 // number of keys, which only the header of form c has; 0 if it is unknown

	hash func(key []byte) uint64 // nil if there is none
}

// NewFuse returns the filter of keys with these hashes, which the peer builds. It does not
// change hashes. Equal hashes count once. The error is ErrParameters for more than 2^30
// hashes, or the peer's if it does not find a filter: the hashes are hardly random then.
func NewFuse[T Unsigned](hashes []uint64) (*Fuse[T], error) {
	if len(hashes) > maxKeys {
		return nil, fmt.Errorf("xorfilter: new filter: %w: %d keys, at most %d are possible", ErrParameters, len(hashes), maxKeys)
	}
	// The peer sorts its input if some hashes are equal.
	built, err := peer.NewBinaryFuse[T](slices.Clone(hashes))
	if err != nil {
		return nil, fmt.Errorf("xorfilter: new filter of %d keys: %w", len(hashes), err)
	}
	f, err := FuseFields[T](*built).Open()
	if err != nil {
		return nil, err
	}
	f.keys = uint32(len(hashes))
	return f, nil
}

// SetHash sets the function that hashes keys for MayContain and the like. Reading a filter
// keeps it.
func (f *Fuse[T]) SetHash(hash func(key []byte) uint64) { f.hash = hash }

// MayContain reports whether a key may be in the filter. False is certain. Without a hash
// function it is true for every key.
func (f *Fuse[T]) MayContain(key []byte) bool { return f.hash == nil || f.MayContainHash(f.hash(key)) }

// MayContainString is MayContain of the bytes of s.
func (f *Fuse[T]) MayContainString(s string) bool { return f.MayContain(stringBytes(s)) }

// MayContainKeys sets out[i] to MayContain of keys[i]. If out is longer than keys, the rest
// of it becomes true; if it is shorter, the rest of keys is not asked.
func (f *Fuse[T]) MayContainKeys(keys [][]byte, out []bool) {
	for i := range out {
		out[i] = i >= len(keys) || f.MayContain(keys[i])
	}
}

// MayContainHash reports whether a key with this hash may be in the filter, as the peer's
// Contains does. False is certain.
func (f *Fuse[T]) MayContainHash(h uint64) bool {
	if len(f.bytes) == 0 {
		return true
	}
	h = mix(h + f.seed)
	first, _ := bits.Mul64(h, uint64(f.count)*uint64(f.length))
	mask := uint64(f.length) - 1
	second := (first + uint64(f.length)) ^ (h >> 18 & mask)
	third := (first + 2*uint64(f.length)) ^ (h & mask)
	return T(h^h>>32) == at[T](f.bytes, first)^at[T](f.bytes, second)^at[T](f.bytes, third)
}

// MayContainMany sets out[i] to MayContainHash of hashes[i]. If out is longer than hashes,
// the rest of it becomes true; if it is shorter, the rest of hashes is not asked.
func (f *Fuse[T]) MayContainMany(hashes []uint64, out []bool) {
	for i := range out {
		out[i] = i >= len(hashes) || f.MayContainHash(hashes[i])
	}
}

// SizeBytes returns the memory of the fingerprints.
func (f *Fuse[T]) SizeBytes() int { return len(f.bytes) }

// Bits returns how many bits a fingerprint has.
func (f *Fuse[T]) Bits() int { return 8 * int(unsafe.Sizeof(T(0))) }

// FPR returns the share of absent keys that are expected to pass.
func (f *Fuse[T]) FPR() float64 {
	if len(f.bytes) == 0 {
		return 1
	}
	return math.Ldexp(1, -f.Bits())
}

// Count returns the number of hashes that NewFuse got, or that xor_singleheader has written.
// If neither is known it returns 0.
func (f *Fuse[T]) Count() uint64 { return uint64(f.keys) }

// String describes the filter in one line.
func (f Fuse[T]) String() string {
	if len(f.bytes) == 0 {
		return "xorfilter.Fuse: the zero value, which says maybe to every key"
	}
	return fmt.Sprintf("xorfilter.Fuse: %d fingerprints of %d bits, %.3g %% of absent keys pass", len(f.bytes)/f.width(), f.Bits(), 100*f.FPR())
}

// width returns the bytes of a fingerprint.
func (f *Fuse[T]) width() int { return int(unsafe.Sizeof(T(0))) }

// at returns fingerprint number i. Requires: b has it.
func at[T Unsigned](b []byte, i uint64) T {
	switch unsafe.Sizeof(T(0)) {
	case 1:
		return T(b[i])
	case 2:
		return T(binary.LittleEndian.Uint16(b[2*i:]))
	}
	return T(binary.LittleEndian.Uint32(b[4*i:]))
}

// mix is the finalizer of MurmurHash3, with which the peers mix seed and hash.
func mix(h uint64) uint64 {
	h ^= h >> 33
	h *= 0xff51afd7ed558ccd
	h ^= h >> 33
	h *= 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}

// stringBytes returns the bytes of s without a copy. They must not be changed.
func stringBytes(s string) []byte { return unsafe.Slice(unsafe.StringData(s), len(s)) }
