package hashes

import "iter"

// The constants of FNV.
const (
	offset64 = 0xcbf29ce484222325
	prime64  = 0x100000001b3
)

// DoubleFNV returns FNV-1 and FNV-1a of the key, of 64 bits each, as hash/fnv computes them. This
// is the pair that programs with small Bloom filters of their own take, among them
// github.com/riobard/go-bloom in its tests and go-shadowsocks2, which uses it. Positions makes
// their positions of it.
//
// It is not for bloom.FilterOptions. There the highest bits of both words choose the
// positions, and the last bytes of a key hardly change those. Use Of for that.
func DoubleFNV(key []byte) (h1, h2 uint64) {
	h1, h2 = offset64, offset64
	for _, b := range key {
		h1 = h1*prime64 ^ uint64(b)
		h2 = (h2 ^ uint64(b)) * prime64
	}
	return h1, h2
}

// Positions yields the positions of a key among m bits by plain double hashing: h1 + i·h2
// modulo m, for i from 0 to k-1, with sums and products of 64 bits that wrap around. It is
// for asking and making bit arrays of other programs: see [DoubleFNV]. It yields nothing if m
// is 0.
//
// In small filters plain double hashing lets more keys pass than theory says (Dillinger and
// Manolios 2004): measured with 10 keys at 1 %, twice as many. A bloom.Filter does not have
// that weakness.
func Positions(h1, h2, m uint64, k int) iter.Seq[uint64] {
	return func(yield func(uint64) bool) {
		if m == 0 {
			return
		}
		for range k {
			if !yield(h1 % m) {
				return
			}
			h1 += h2
		}
	}
}
