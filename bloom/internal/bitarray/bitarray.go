// Package bitarray has the array of bits of the classic Bloom filter: the whole of a Filter
// but its hash function, and a layer of a Scalable.
package bitarray

import (
	"encoding/binary"
	"math"
	"math/bits"

	"github.com/shaledb/shale/bloom/internal/form"
)

// An Array is m bits, of which each key sets k, anywhere in the array. The zero Array says
// maybe to every hash, and nothing may be added to it.
//
// The probes are those of enhanced double hashing (Dillinger and Manolios 2004): see
// thirdWord.
type Array struct {
	Words []uint64
	M     uint64 // bits: 64 · len(Words)
	K     int    // probes of a key
	Count uint64 // keys added

	Shared bool // the words belong to the bytes that the array was opened from: see Own
}

// Make returns an empty array of m bits, rounded up to whole words, and k probes.
func Make(m uint64, k int) Array {
	m = (m + 63) &^ 63
	return Array{Words: make([]uint64, m/64), M: m, K: k}
}

// thirdWord returns z, the third word of the probes of a key. The probes begin at x
// = h1. After each of them x advances by y, y by z, and z by form.ProbeMul, where y
// begins at h2. So probe i is at
//
//	x[i] = h1 + i·y + i(i-1)/2·z + i(i-1)(i-2)/6·ProbeMul
//
// with the first y and z. The top bits of x choose the bit of the filter. z has the low
// half of h1 on top, and the low half of h2: bits that hardly influence the top bits of x
// and y. Part of the file format, never changes.
func thirdWord(h1, h2 uint64) uint64 { return h1<<32 | h2&math.MaxUint32 }

// Add adds the key with this hash.
func (a *Array) Add(h1, h2 uint64) {
	if a.Shared {
		a.Own()
	}
	x, y, z := h1, h2, thirdWord(h1, h2)
	for range a.K {
		i, _ := bits.Mul64(x, a.M)
		a.Words[i>>6] |= 1 << (i & 63)
		x += y
		y += z
		z += form.ProbeMul
	}
	a.Count++
}

// Has reports whether the key with this hash may have been added.
//
// About half of the bits of a full filter are set, so the processor cannot
// predict the answer of one probe. The first three probes are loaded in parallel
// and tested with one branch.
func (a *Array) Has(h1, h2 uint64) bool {
	x, y, z := h1, h2, thirdWord(h1, h2)
	k := a.K
	if k >= atOnce {
		all := a.bit(x)
		x, y, z = x+y, y+z, z+form.ProbeMul
		all &= a.bit(x)
		x, y, z = x+y, y+z, z+form.ProbeMul
		all &= a.bit(x)
		x, y, z = x+y, y+z, z+form.ProbeMul
		if all&1 == 0 {
			return false
		}
		k -= atOnce
	}
	for range k {
		if a.bit(x)&1 == 0 {
			return false
		}
		x, y, z = x+y, y+z, z+form.ProbeMul
	}
	return true
}

// atOnce is how many probes Has tests with one branch.
const atOnce = 3

// bit returns a word whose lowest bit is the array's bit at x. The other bits
// mean nothing.
func (a *Array) bit(x uint64) uint64 {
	i, _ := bits.Mul64(x, a.M)
	return a.Words[i>>6] >> (i & 63)
}

// CheckAndAdd adds the key with this hash, and reports whether it may have been there
// before.
func (a *Array) CheckAndAdd(h1, h2 uint64) bool {
	if a.Shared {
		a.Own()
	}
	x, y, z := h1, h2, thirdWord(h1, h2)
	all := uint64(1)
	for range a.K {
		i, _ := bits.Mul64(x, a.M)
		w := &a.Words[i>>6]
		all &= *w >> (i & 63)
		*w |= 1 << (i & 63)
		x += y
		y += z
		z += form.ProbeMul
	}
	a.Count++
	return all == 1
}

// Ones counts the bits that are set.
func (a *Array) Ones() (n uint64) {
	for _, w := range a.Words {
		n += uint64(bits.OnesCount64(w))
	}
	return n
}

// Fill returns the share of bits that are set, and 1 for the zero Array. It counts them.
func (a *Array) Fill() float64 {
	if a.M == 0 {
		return 1
	}
	return float64(a.Ones()) / float64(a.M)
}

// FPR returns the share of absent keys that pass with the bits that are set at the moment:
// Fill to the power of k.
func (a *Array) FPR() float64 { return math.Pow(a.Fill(), float64(max(a.K, 1))) }

// SizeBytes returns the memory that the bits take.
func (a *Array) SizeBytes() int { return len(a.Words) * 8 }

// Reset removes all keys. It keeps the memory, unless that is shared.
func (a *Array) Reset() {
	if a.Shared {
		a.Words, a.Shared = make([]uint64, len(a.Words)), false
	}
	clear(a.Words)
	a.Count = 0
}

// Clone returns a copy in memory of its own.
func (a *Array) Clone() Array {
	c := *a
	c.Words, c.Shared = append([]uint64(nil), a.Words...), false
	return c
}

// AppendWords appends the words to dst, little-endian.
func (a *Array) AppendWords(dst []byte) []byte {
	for _, w := range a.Words {
		dst = binary.LittleEndian.AppendUint64(dst, w)
	}
	return dst
}

// DecodeWords returns the words that AppendWords wrote as b.
func DecodeWords(b []byte) []uint64 {
	words := make([]uint64, len(b)/8)
	for i := range words {
		words[i] = binary.LittleEndian.Uint64(b[8*i:])
	}
	return words
}
