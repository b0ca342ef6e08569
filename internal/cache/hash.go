package cache

import "math/bits"

// These are constants without a pattern: the fractional
// parts of the square roots of 2 and 3, made odd.
const (
	mixA = 0x6a09e667f3bcc909
	mixB = 0xbb67ae8584caa73b
)

// mix spreads two words over one, so that each bit of the result depends
// on all bits of both. It folds the halves of a 128-bit product, twice.
func mix(a, b uint64) uint64 {
	hi, lo := bits.Mul64(a^mixA, b^mixB)
	hi, lo = bits.Mul64(hi^lo^mixB, mixA)
	return hi ^ lo
}

// hash returns the hash of k. It is never 0, because 0 marks an empty slot. The top bits
// choose the place in a table, and the bits from the second lowest up choose the shard.
func (k Key) hash() uint64 { return mix(k.File, k.Offset) | 1 }
