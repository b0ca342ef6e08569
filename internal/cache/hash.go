package cache

import "math/bits"

// Odd constants without a pattern: the fractional parts of the square roots of
// 2 and 3, made odd.
const (
	mixA = 0x6a09e667f3bcc909
	mixB = 0xbb67ae8584caa73b
)

// mix spreads two words over one, all bits of each over all bits of the result:
// the two halves of a 128-bit product, folded.
func mix(a, b uint64) uint64 {
	hi, lo := bits.Mul64(a^mixA, b^mixB)
	hi, lo = bits.Mul64(hi^lo^mixB, mixA)
	return hi ^ lo
}

// hash is never 0, which marks an empty slot. The top bits choose the place in
// a table, bits from the second lowest on the shard.
func (k Key) hash() uint64 { return mix(k.File, k.Offset) | 1 }
