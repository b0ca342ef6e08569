package guava

import (
	"encoding/binary"
	"math/bits"
)

// The constants of MurmurHash3 x64 128 (Appleby 2011, public domain).
const (
	murmurC1 = 0x87c37b91114253d5
	murmurC2 = 0x4cf5ad432745937f
)

// sum128 is MurmurHash3 x64 128 with seed 0. spaolacci/murmur3, with which it is
// compared in the tests, has keys escape to the heap: funnels of numbers would
// allocate.
func sum128(key []byte) (h1, h2 uint64) {
	p := key
	for ; len(p) >= 16; p = p[16:] {
		h1 ^= mixK1(binary.LittleEndian.Uint64(p))
		h1 = (bits.RotateLeft64(h1, 27)+h2)*5 + 0x52dce729
		h2 ^= mixK2(binary.LittleEndian.Uint64(p[8:]))
		h2 = (bits.RotateLeft64(h2, 31)+h1)*5 + 0x38495ab5
	}
	if len(p) > 0 {
		// What is not there counts as zeros, which change nothing.
		var tail [16]byte
		copy(tail[:], p)
		h1 ^= mixK1(binary.LittleEndian.Uint64(tail[:]))
		h2 ^= mixK2(binary.LittleEndian.Uint64(tail[8:]))
	}
	n := uint64(len(key))
	h1 ^= n
	h2 ^= n
	h1 += h2
	h2 += h1
	h1, h2 = finish(h1), finish(h2)
	h1 += h2
	return h1, h2 + h1
}

func mixK1(k uint64) uint64 { return bits.RotateLeft64(k*murmurC1, 31) * murmurC2 }
func mixK2(k uint64) uint64 { return bits.RotateLeft64(k*murmurC2, 33) * murmurC1 }

// finish spreads every bit of h over the whole word.
func finish(h uint64) uint64 {
	h ^= h >> 33
	h *= 0xff51afd7ed558ccd
	h ^= h >> 33
	h *= 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}
