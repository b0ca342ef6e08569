package bitsandblooms

import (
	"encoding/binary"
	"math/bits"
)

// The constants of MurmurHash3 x64 128 (Appleby 2011, public domain).
const (
	murmurC1 = 0x87c37b91114253d5
	murmurC2 = 0x4cf5ad432745937f
)

// A state is the state of a MurmurHash3 x64 128 after some blocks of 16 bytes.
type state struct{ h1, h2 uint64 }

// block hashes one block of 16 bytes, given as two words.
func (s *state) block(k1, k2 uint64) {
	s.h1 ^= mixK1(k1)
	s.h1 = (bits.RotateLeft64(s.h1, 27)+s.h2)*5 + 0x52dce729
	s.h2 ^= mixK2(k2)
	s.h2 = (bits.RotateLeft64(s.h2, 31)+s.h1)*5 + 0x38495ab5
}

// sum hashes the last bytes, less than a block, and returns the two words of the digest. n
// is the length of the whole input.
func (s state) sum(k1, k2, n uint64) (h1, h2 uint64) {
	h1 = s.h1 ^ mixK1(k1) ^ n
	h2 = s.h2 ^ mixK2(k2) ^ n
	h1 += h2
	h2 += h1
	h1, h2 = finish(h1), finish(h2)
	h1 += h2
	return h1, h2 + h1
}

// hashes returns the four hashes of a key. The first two are the MurmurHash3 x64 128 of the
// key with seed 0, the others that of the key with a byte 1 appended. Both inputs have the
// same full blocks, which are hashed only once.
func hashes(key []byte) [4]uint64 {
	var s state
	p := key
	for ; len(p) >= 16; p = p[16:] {
		s.block(binary.LittleEndian.Uint64(p), binary.LittleEndian.Uint64(p[8:]))
	}
	// Missing bytes count as zeros, which do not change the hash.
	var tail [16]byte
	copy(tail[:], p)
	n := uint64(len(key))
	h1, h2 := s.sum(binary.LittleEndian.Uint64(tail[:]), binary.LittleEndian.Uint64(tail[8:]), n)
	tail[len(p)] = 1
	k1, k2 := binary.LittleEndian.Uint64(tail[:]), binary.LittleEndian.Uint64(tail[8:])
	if len(p) == 15 {
		s.block(k1, k2)
		k1, k2 = 0, 0
	}
	h3, h4 := s.sum(k1, k2, n+1)
	return [4]uint64{h1, h2, h3, h4}
}

func mixK1(k uint64) uint64 { return bits.RotateLeft64(k*murmurC1, 31) * murmurC2 }
func mixK2(k uint64) uint64 { return bits.RotateLeft64(k*murmurC2, 33) * murmurC1 }

// finish is the finalizer of MurmurHash3: every bit of h influences every bit of
// the result.
func finish(h uint64) uint64 {
	h ^= h >> 33
	h *= 0xff51afd7ed558ccd
	h ^= h >> 33
	h *= 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}

// location returns position i of a key before it is taken modulo m.
func location(h *[4]uint64, i uint64) uint64 { return h[i&1] + i*h[2+((i+i&1)&3)/2] }

// Locations returns the first k positions of a key before they are taken modulo m,
// as the peer's Locations does.
func Locations(key []byte, k uint) []uint64 {
	h := hashes(key)
	all := make([]uint64, k)
	for i := range all {
		all[i] = location(&h, uint64(i))
	}
	return all
}
