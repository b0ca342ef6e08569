package xorfilter

import (
	"fmt"
	"math/bits"
	"slices"

	peer "github.com/FastFilter/xorfilter"
)

// An Xor8 is an xor filter of the peer, with fingerprints of 8 bits. A Fuse is smaller and
// faster. The zero value answers maybe to every key. It is for ReadFrom, UnmarshalBinary and
// UnmarshalText.
type Xor8 struct {
	// bytes are three blocks of fingerprints. Each key has a place in each of them. They are
	// never changed.
	bytes []byte
	seed  uint64

	hash func(key []byte) uint64 // nil if there is none
}

// NewXor8 returns the filter of keys with these hashes, which the peer builds. It does not
// change hashes. Equal hashes count once. The error is ErrParameters for no hashes or more
// than 2^30, or the peer's if it does not find a filter: the hashes are hardly random then.
func NewXor8(hashes []uint64) (*Xor8, error) {
	if len(hashes) == 0 || len(hashes) > maxKeys {
		return nil, fmt.Errorf("xorfilter: new filter: %w: %d keys, 1 to %d are possible", ErrParameters, len(hashes), maxKeys)
	}
	// The peer sorts its input if some hashes are equal.
	built, err := peer.Populate(slices.Clone(hashes))
	if err != nil {
		return nil, fmt.Errorf("xorfilter: new filter of %d keys: %w", len(hashes), err)
	}
	return Xor8Fields(*built).Open()
}

// SetHash sets the function that hashes keys for MayContain and the like. Reading a filter
// keeps it.
func (f *Xor8) SetHash(hash func(key []byte) uint64) { f.hash = hash }

// MayContain reports whether a key may be in the filter. False is certain. Without a hash
// function it is true for every key.
func (f *Xor8) MayContain(key []byte) bool { return f.hash == nil || f.MayContainHash(f.hash(key)) }

// MayContainString is MayContain of the bytes of s.
func (f *Xor8) MayContainString(s string) bool { return f.MayContain(stringBytes(s)) }

// MayContainKeys sets out[i] to MayContain of keys[i]. If out is longer than keys, the rest
// of it becomes true; if it is shorter, the rest of keys is not asked.
func (f *Xor8) MayContainKeys(keys [][]byte, out []bool) {
	for i := range out {
		out[i] = i >= len(keys) || f.MayContain(keys[i])
	}
}

// MayContainHash reports whether a key with this hash may be in the filter, as the peer's
// Contains does. False is certain.
func (f *Xor8) MayContainHash(h uint64) bool {
	if len(f.bytes) == 0 {
		return true
	}
	h = mix(h + f.seed)
	block := uint64(len(f.bytes) / 3)
	first := uint64(uint32(h)) * block >> 32
	second := uint64(uint32(bits.RotateLeft64(h, 21)))*block>>32 + block
	third := uint64(uint32(bits.RotateLeft64(h, 42)))*block>>32 + 2*block
	return byte(h^h>>32) == f.bytes[first]^f.bytes[second]^f.bytes[third]
}

// MayContainMany sets out[i] to MayContainHash of hashes[i]. If out is longer than hashes,
// the rest of it becomes true; if it is shorter, the rest of hashes is not asked.
func (f *Xor8) MayContainMany(hashes []uint64, out []bool) {
	for i := range out {
		out[i] = i >= len(hashes) || f.MayContainHash(hashes[i])
	}
}

// SizeBytes returns the memory of the fingerprints.
func (f *Xor8) SizeBytes() int { return len(f.bytes) }

// FPR returns the share of absent keys that are expected to pass.
func (f *Xor8) FPR() float64 {
	if len(f.bytes) == 0 {
		return 1
	}
	return 1.0 / 256
}

// String describes the filter in one line.
func (f Xor8) String() string {
	if len(f.bytes) == 0 {
		return "xorfilter.Xor8: the zero value, which says maybe to every key"
	}
	return fmt.Sprintf("xorfilter.Xor8: %d fingerprints of 8 bits, %.3g %% of absent keys pass", len(f.bytes), 100*f.FPR())
}
