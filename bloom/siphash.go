package bloom

import (
	"encoding/binary"
	"math/bits"

	"github.com/shaledb/shale/bloom/internal/form"
)

// sipKey returns the second half of SipHash's key; the seed is the first half. It is
// murmur3's finish of the seed plus an odd constant. Part of the file format, never
// changes. The whole key is as hard to guess as the 64 bits of the seed.
func sipKey(seed uint64) uint64 { return form.Finish(seed + probeMul) }

// sipHash is SipHash-1-3 with the key k0, k1 (Aumasson and Bernstein 2012). The hash tables
// of Rust and Ruby use it with the same number of rounds.
//
// The rounds are calls that the compiler inlines, so that the state stays in registers.
func sipHash(p []byte, k0, k1 uint64) uint64 {
	v0, v1 := k0^0x736f6d6570736575, k1^0x646f72616e646f6d
	v2, v3 := k0^0x6c7967656e657261, k1^0x7465646279746573
	last := uint64(len(p)) << 56
	for len(p) >= 8 {
		m := binary.LittleEndian.Uint64(p)
		v0, v1, v2, v3 = sipRound(v0, v1, v2, v3^m)
		v0 ^= m
		p = p[8:]
	}
	if len(p) > 0 {
		last |= loadTail(p)
	}
	v0, v1, v2, v3 = sipRound(v0, v1, v2, v3^last)
	v0 ^= last
	v0, v1, v2, v3 = sipRound(v0, v1, v2^0xff, v3)
	v0, v1, v2, v3 = sipRound(v0, v1, v2, v3)
	v0, v1, v2, v3 = sipRound(v0, v1, v2, v3)
	return v0 ^ v1 ^ v2 ^ v3
}

func sipRound(v0, v1, v2, v3 uint64) (uint64, uint64, uint64, uint64) {
	v0 += v1
	v2 += v3
	v1 = bits.RotateLeft64(v1, 13) ^ v0
	v3 = bits.RotateLeft64(v3, 16) ^ v2
	v0 = bits.RotateLeft64(v0, 32) + v3
	v2 += v1
	v3 = bits.RotateLeft64(v3, 21) ^ v0
	v1 = bits.RotateLeft64(v1, 17) ^ v2
	return v0, v1, bits.RotateLeft64(v2, 32), v3
}
