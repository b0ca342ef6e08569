package bloom

import (
	"encoding/binary"
	"math/bits"

	"github.com/shaledb/shale/bloom/internal/form"
)

// A Hash128 is a function that returns 128 bits of hash as two words. A Filter computes any
// number of probes from them. The function must mix every bit of the key into the highest
// bits of both words, as Murmur3 does, because these choose the bits of the filter. It must
// return the same words for the same bytes. Several goroutines may call it at once. The key
// is only lent: the function must not keep it. Package hashes makes some of hash.Hash.
type Hash128 func(key []byte) (h1, h2 uint64)

// Murmur3 is MurmurHash3 x64 128 with seed 0. h1 is Hash(key). It keeps nothing
// of key, and allocates nothing.
//
// The tests compare it with spaolacci/murmur3.Sum128. It has no secret either: see Hash.
// Someone who chooses keys can make any number of keys with the same 128 bits.
func Murmur3(key []byte) (h1, h2 uint64) {
	p := key
	for len(p) >= 16 {
		h1 ^= mixK1(binary.LittleEndian.Uint64(p))
		h1 = (bits.RotateLeft64(h1, 27)+h2)*5 + 0x52dce729
		h2 ^= mixK2(binary.LittleEndian.Uint64(p[8:]))
		h2 = (bits.RotateLeft64(h2, 31)+h1)*5 + 0x38495ab5
		p = p[16:]
	}
	switch {
	case len(p) > 8:
		// The last 8 bytes of p overlap the first 8. The shift removes the overlap.
		last := binary.LittleEndian.Uint64(p[len(p)-8:])
		h2 ^= mixK2(last >> (8 * (16 - uint(len(p)))))
		h1 ^= mixK1(binary.LittleEndian.Uint64(p))
	case len(p) > 0:
		h1 ^= mixK1(loadTail(p))
	}
	n := uint64(len(key))
	h1 ^= n
	h2 ^= n
	h1 += h2
	h2 += h1
	h1, h2 = form.Finish(h1), form.Finish(h2)
	h1 += h2
	return h1, h1 + h2
}

// Hash128 returns 128 bits of hash of key. The first word is Hash(key). For [HashMurmur3]
// both are those of Murmur3. [HashXXH3] and [HashSipHash] have 64 bits only, and the second
// word is computed from the first. So two keys with the same first word agree in both. That
// adds a probability of n / 2^64 to the false positives of n keys, which is negligible.
func (h Hasher) Hash128(key []byte) (h1, h2 uint64) {
	if h.id == 0 {
		return Murmur3(key)
	}
	h1 = h.Hash(key)
	return h1, form.Finish(h1 + probeMul)
}

// FirstOwnHashID is the first [HashID] that this package will never give to a
// function of its own. It and the ids up to 255 are free for callers.
const FirstOwnHashID HashID = 64
