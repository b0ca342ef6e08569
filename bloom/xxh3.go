package bloom

import (
	"encoding/binary"
	"math/bits"
)

// The primes of xxHash (Collet, BSD licence).
const (
	xxPrime32x1 = 0x9e3779b1
	xxPrime32x2 = 0x85ebca77
	xxPrime32x3 = 0xc2b2ae3d
	xxPrime64x1 = 0x9e3779b185ebca87
	xxPrime64x2 = 0xc2b2ae3d27d4eb4f
	xxPrime64x3 = 0x165667b19e3779f9
	xxPrime64x4 = 0x85ebca77c2b2ae63
	xxPrime64x5 = 0x27d4eb2f165667c5
	xxMixA      = 0x165667919e3779f9
	xxMixB      = 0x9fb21c651e98df25
)

// The default secret of XXH3 as little-endian words. The first ones also have names,
// because short keys use them as constants.
const (
	xxS0  = 0xbe4ba423396cfeb8
	xxS1  = 0x1cad21f72c81017c
	xxS2  = 0xdb979083e96dd4de
	xxS3  = 0x1f67b3b7a4a44072
	xxS4  = 0x78e5c0cc4ee679cb
	xxS5  = 0x2172ffcc7dd05a82
	xxS6  = 0x8e2443f7744608b8
	xxS7  = 0x4c263a81e69035e0
	xxS8  = 0xcb00c391bb52283c
	xxS9  = 0xa32e531b8b65d088
	xxS10 = 0x4ef90da297486471
	xxS11 = 0xd8acdea946ef1938
	xxS12 = 0x3f349ce33f76faa8
	xxS13 = 0x1d4f0bc7c7bbdcf9
	xxS14 = 0x3159b4cd4be0518a
	xxS15 = 0x647378d9c97e9fc8
)

var xxSecret = [24]uint64{
	xxS0, xxS1, xxS2, xxS3, xxS4, xxS5, xxS6, xxS7, xxS8, xxS9, xxS10, xxS11, xxS12, xxS13, xxS14, xxS15,
	0xc3ebd33483acc5ea, 0xeb6313faffa081c5, 0x49daf0b751dd0d17, 0x9e68d429265516d3,
	0xfca1477d58be162b, 0xce31d07ad1b8f88f, 0x280416958f3acb45, 0x7e404bbbcafbd7af,
}

// xxHash is XXH3_64bits_withSeed. The tests compare it with zeebo/xxh3.HashSeed. That
// module is faster on long keys, because it uses assembly; keys of a store are seldom long.
func xxHash(p []byte, seed uint64) uint64 {
	n := len(p)
	switch {
	case n > 16:
		return xxLong(p, seed)
	case n > 8:
		lo := binary.LittleEndian.Uint64(p) ^ (xxS3 ^ xxS4 + seed)
		hi := binary.LittleEndian.Uint64(p[n-8:]) ^ (xxS5 ^ xxS6 - seed)
		return xxAvalanche(uint64(n) + bits.ReverseBytes64(lo) + hi + mulFold(lo, hi))
	case n >= 4:
		seed ^= uint64(bits.ReverseBytes32(uint32(seed))) << 32
		first, last := binary.LittleEndian.Uint32(p), binary.LittleEndian.Uint32(p[n-4:])
		h := (uint64(last) | uint64(first)<<32) ^ (xxS1 ^ xxS2 - seed)
		h ^= bits.RotateLeft64(h, 49) ^ bits.RotateLeft64(h, 24)
		h *= xxMixB
		h ^= h>>35 + uint64(n)
		h *= xxMixB
		return h ^ h>>28
	case n > 0:
		// p has one to three bytes. These are its first, middle and last byte,
		// which may coincide.
		three := uint64(p[0])<<16 | uint64(p[n>>1])<<24 | uint64(p[n-1]) | uint64(n)<<8
		return xxAvalanche64(three ^ (xxS0&0xffffffff ^ xxS0>>32 + seed))
	}
	return xxAvalanche64(seed ^ xxS7 ^ xxS8)
}

// xxLong is xxHash for more than 16 bytes. It takes up to 128 bytes from both
// ends towards the middle.
func xxLong(p []byte, seed uint64) uint64 {
	n := len(p)
	if n > 240 {
		return xxStripes(p, seed)
	} else if n > 128 {
		return xxMiddle(p, seed)
	}
	h := uint64(n) * xxPrime64x1
	if n > 32 {
		if n > 64 {
			if n > 96 {
				h += xxMix16(p[48:64], xxS12+seed, xxS13-seed) + xxMix16(p[n-64:], xxS14+seed, xxS15-seed)
			}
			h += xxMix16(p[32:48], xxS8+seed, xxS9-seed) + xxMix16(p[n-48:], xxS10+seed, xxS11-seed)
		}
		h += xxMix16(p[16:32], xxS4+seed, xxS5-seed) + xxMix16(p[n-32:], xxS6+seed, xxS7-seed)
	}
	h += xxMix16(p[:16], xxS0+seed, xxS1-seed) + xxMix16(p[n-16:], xxS2+seed, xxS3-seed)
	return xxAvalanche(h)
}

// xxMiddle is xxHash for 129 to 240 bytes.
func xxMiddle(p []byte, seed uint64) uint64 {
	const startOffset, lastOffset = 3, 136 - 17 // offsets in the secret
	h := uint64(len(p)) * xxPrime64x1
	rounds := len(p) / 16
	for i := range 8 {
		h += xxMix16(p[16*i:], xxSecret[2*i]+seed, xxSecret[2*i+1]-seed)
	}
	h = xxAvalanche(h)
	for i := 8; i < rounds; i++ {
		o := 16*(i-8) + startOffset
		h += xxMix16(p[16*i:], xxAt(&xxSecret, o)+seed, xxAt(&xxSecret, o+8)-seed)
	}
	h += xxMix16(p[len(p)-16:], xxAt(&xxSecret, lastOffset)+seed, xxAt(&xxSecret, lastOffset+8)-seed)
	return xxAvalanche(h)
}

// A key of more than 240 bytes is cut into stripes, and the stripes into blocks. After each
// block the sums are scrambled.
const (
	xxStripe       = 64
	xxBlockStripes = (192 - xxStripe) / 8
)

// xxStripes is xxHash for more than 240 bytes.
func xxStripes(p []byte, seed uint64) uint64 {
	secret := xxSecret
	if seed != 0 {
		for i := 0; i < len(secret); i += 2 {
			secret[i] += seed
			secret[i+1] -= seed
		}
	}
	sums := [8]uint64{xxPrime32x3, xxPrime64x1, xxPrime64x2, xxPrime64x3, xxPrime64x4, xxPrime32x2, xxPrime64x5, xxPrime32x1}
	rest := p
	for stripe := 0; len(rest) > xxStripe; rest = rest[xxStripe:] {
		xxAccumulate(&sums, (*[xxStripe]byte)(rest), (*[8]uint64)(secret[stripe:]))
		if stripe++; stripe == xxBlockStripes {
			for i := range sums {
				sums[i] = (sums[i] ^ sums[i]>>47 ^ secret[16+i]) * xxPrime32x1
			}
			stripe = 0
		}
	}
	var last [8]uint64
	for i := range last {
		last[i] = xxAt(&secret, 192-xxStripe-7+8*i)
	}
	xxAccumulate(&sums, (*[xxStripe]byte)(p[len(p)-xxStripe:]), &last)
	h := uint64(len(p)) * xxPrime64x1
	for i := 0; i < 8; i += 2 {
		h += mulFold(sums[i]^xxAt(&secret, 11+8*i), sums[i+1]^xxAt(&secret, 19+8*i))
	}
	return xxAvalanche(h)
}

// xxAccumulate adds a stripe to the sums, in pairs of words. A word is added to the
// sum of its neighbour. The product of its two halves, after the xor with the
// secret, is added to its own sum.
func xxAccumulate(sums *[8]uint64, stripe *[xxStripe]byte, secret *[8]uint64) {
	for i := 0; i < 8; i += 2 {
		v0 := binary.LittleEndian.Uint64(stripe[8*i:])
		v1 := binary.LittleEndian.Uint64(stripe[8*i+8:])
		k0, k1 := v0^secret[i], v1^secret[i+1]
		sums[i] += v1 + k0&0xffffffff*(k0>>32)
		sums[i+1] += v0 + k1&0xffffffff*(k1>>32)
	}
}

// xxAt returns the word of the secret at a byte offset. Requires: 8 does not divide offset.
func xxAt(secret *[24]uint64, offset int) uint64 {
	i, shift := offset>>3, uint(offset&7)*8
	return secret[i]>>shift | secret[i+1]<<(64-shift)
}

// xxMix16 returns the folded product of the first two words of p, after the xor with the
// keys. Requires: p has at least 16 bytes.
func xxMix16(p []byte, k0, k1 uint64) uint64 {
	_ = p[15]
	return mulFold(binary.LittleEndian.Uint64(p)^k0, binary.LittleEndian.Uint64(p[8:])^k1)
}

// mulFold returns the xor of the two halves of the 128-bit product.
func mulFold(x, y uint64) uint64 {
	hi, lo := bits.Mul64(x, y)
	return hi ^ lo
}

func xxAvalanche(h uint64) uint64 {
	h ^= h >> 37
	h *= xxMixA
	return h ^ h>>32
}

func xxAvalanche64(h uint64) uint64 {
	h ^= h >> 33
	h *= xxPrime64x2
	h ^= h >> 29
	h *= xxPrime64x3
	return h ^ h>>32
}
