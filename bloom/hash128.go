package bloom

import (
	"encoding/binary"
	"math/bits"
	"sync"
)

// A Hash128 gives 128 bits of a key as two words, from which a Filter takes any
// number of probes. Both words have to be mixed to their highest bits, as each of
// Murmur3's is: those choose the bits of a filter. It must give the same for the
// same bytes, may be called by several goroutines, and must not keep the key,
// which is only lent. Package hashes has more of them.
type Hash128 func(key []byte) (h1, h2 uint64)

// Murmur3 is MurmurHash3 x64 128 with seed 0. h1 is Hash(key). Nothing is kept or
// allocated.
//
// Equal to spaolacci/murmur3.Sum128, which is compared in the tests. What Hash
// says of strangers, who may choose keys with one hash, holds for all 128 bits.
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
		// The last 8 bytes of p overlap the first 8: shift those out.
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
	h1, h2 = finish(h1), finish(h2)
	h1 += h2
	return h1, h1 + h2
}

// Hash128 returns 128 bits of key, of which the first word is Hash(key). Those of
// HashMurmur3 are Murmur3's. Of HashXXH3 and HashSipHash, which have 64, the second
// word is made from the first: keys that agree in it agree in all. That adds the
// chance n / 2^64 to the false positives of n keys, which is nothing.
func (h Hasher) Hash128(key []byte) (h1, h2 uint64) {
	if h.id == 0 {
		return Murmur3(key)
	}
	h1 = h.Hash(key)
	return h1, finish(h1 + probeMul)
}

// FirstOwnHashID is the first of the HashIDs that this package will never give to
// a function of its own. Those from 64 to 127 are of package hashes, those from 128
// to 255 free for callers.
const FirstOwnHashID HashID = 64

// A hash128 is the hash function of a filter: one of this package, or own.
type hash128 struct {
	hasher Hasher
	own    *ownHash // nil: hasher
}

// An ownHash is a function that the caller brought. Func values can not be
// compared, so that filters share one by its address, or have it by the same id.
type ownHash struct {
	hash Hash128
	id   HashID // 0: none, such a filter can not be serialized
}

func (h *hash128) of(key []byte) (h1, h2 uint64) {
	if h.own != nil {
		return h.own.of(key)
	}
	return h.hasher.Hash128(key)
}

// scratch has *[]byte, copies of keys while they are hashed.
var scratch = sync.Pool{New: func() any { return new([]byte) }}

// of hashes a copy. What an unknown function is given goes to the heap, and with
// it would each key of a caller who made it on the stack, whatever the function.
func (o *ownHash) of(key []byte) (h1, h2 uint64) {
	b := scratch.Get().(*[]byte)
	*b = append((*b)[:0], key...)
	h1, h2 = o.hash(*b)
	if cap(*b) <= maxScratch {
		scratch.Put(b)
	}
	return h1, h2
}

// maxScratch is the largest buffer that is kept for the next key.
const maxScratch = 1 << 16

// same tells whether two filters are known to hash alike.
func (h *hash128) same(other *hash128) bool {
	switch {
	case h.own == other.own:
		return h.hasher == other.hasher
	case h.own == nil || other.own == nil:
		return false
	}
	return h.own.id != 0 && h.own.id == other.own.id
}

// id is what stands in the serialized form; 0: there is none.
func (h *hash128) id() HashID {
	if h.own != nil {
		return h.own.id
	}
	return h.hasher.ID()
}

// HashIDOf returns the id of the hash function of a serialized filter, of any type of
// this package. A Filter or Scalable whose id is FirstOwnHashID or above opens into one
// that was made with this HashID and its function; all others open into the zero value.
//
// Only the end of filter is looked at: an error is ErrDamaged or ErrUnknown, but no error
// does not mean that the filter opens.
func HashIDOf(filter []byte) (HashID, error) {
	if len(filter) < trailerLen {
		return 0, damage("%d bytes are less than a trailer", len(filter))
	}
	b := filter[len(filter)-trailerLen:]
	switch id := HashID(b[2]); {
	case b[0] < kindBlocked || b[0] > kindBitset:
		return 0, unknown("kind", uint64(b[0]))
	case id == 0:
		return 0, unknown("hash", 0)
	default:
		return id, nil
	}
}
