package keys

import "math/bits"

// Mix is the last step of splitmix64: a bijection on 64 bits.
func Mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// A Permutation of [0, n) takes no memory: it is a bijection on the least
// power of two that is not below n, repeated until the answer is below n.
type Permutation struct {
	n, mask uint64
	shift   int
}

// NewPermutation returns one of [0, n).
func NewPermutation(n uint64) Permutation {
	width := max(2, bits.Len64(n-1))
	return Permutation{n: n, mask: 1<<width - 1, shift: (width + 1) / 2}
}

// At is the place of i. Requires: i < n.
func (p Permutation) At(i uint64) uint64 {
	for {
		// Multiplying by an odd number, adding, and shifting into the lower
		// half are bijections on the masked bits.
		for _, odd := range [...]uint64{0x9e3779b97f4a7c15, 0xbf58476d1ce4e5b9, 0x94d049bb133111eb} {
			i = (i*odd + odd>>32) & p.mask
			i ^= i >> p.shift
		}
		if i < p.n {
			return i
		}
	}
}
