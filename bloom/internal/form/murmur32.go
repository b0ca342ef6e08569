package form

import (
	"encoding/binary"
	"math/bits"
)

// The constants of MurmurHash3 x86 32 (Appleby 2011, public domain).
const (
	murmurC1 = 0xcc9e2d51
	murmurC2 = 0x1b873593
)

// Murmur32 is MurmurHash3 x86 32. The tests compare it with spaolacci/murmur3. That
// package is not used here for two reasons: it loads words in the machine's byte
// order, and it makes pointers past the end of its input, with which a program
// under the race detector crashes.
func Murmur32(b []byte, seed uint32) uint32 {
	h, n := seed, uint32(len(b))
	for ; len(b) >= 4; b = b[4:] {
		h ^= mix(binary.LittleEndian.Uint32(b))
		h = bits.RotateLeft32(h, 13)*5 + 0xe6546b64
	}
	if len(b) > 0 {
		// Missing bytes count as zeros.
		var tail [4]byte
		copy(tail[:], b)
		h ^= mix(binary.LittleEndian.Uint32(tail[:]))
	}
	h ^= n
	h = (h ^ h>>16) * 0x85ebca6b
	h = (h ^ h>>13) * 0xc2b2ae35
	return h ^ h>>16
}

func mix(k uint32) uint32 { return bits.RotateLeft32(k*murmurC1, 15) * murmurC2 }
