package main

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"math/rand/v2"
)

// minEntries leaves two for a small run, maxEntries are what twelve digits can
// number.
const (
	minEntries = 2 * runEntriesDivisor
	maxEntries = 500_000_000_000
)

// A keySpace numbers present and absent keys without holding any. Each kind is
// a bijection from even numbers to present keys and from odd ones to absent
// keys, so no absent key is ever present; and absent keys lie between present
// ones. Keys that follow each other by number are scattered over the range.
type keySpace struct {
	structured     bool
	order, between permutation
}

func newKeySpace(kind string, n int) keySpace {
	return keySpace{
		structured: kind == "structured",
		order:      newPermutation(uint64(n)),
		between:    newPermutation(uint64(n - 1)), // the gaps between n keys
	}
}

// present appends the i-th key to be written to buf, i < n.
func (s keySpace) present(buf []byte, i uint64) []byte {
	if s.structured {
		return appendUser(buf, 2*s.order.at(i))
	}
	return appendHex(buf, mix(2*i))
}

// absent appends the i-th absent key. Structured keys repeat after n-1, random
// ones never.
func (s keySpace) absent(buf []byte, i uint64) []byte {
	if s.structured {
		return appendUser(buf, 2*s.between.at(i%s.between.n)+1)
	}
	return appendHex(buf, mix(2*i+1))
}

func appendHex(buf []byte, x uint64) []byte {
	const digits = "0123456789abcdef"
	for shift := 60; shift >= 0; shift -= 4 {
		buf = append(buf, digits[x>>shift&15])
	}
	return buf
}

// appendUser appends x as user%012d.
func appendUser(buf []byte, x uint64) []byte {
	var digits [12]byte
	for i := len(digits) - 1; i >= 0; i-- {
		digits[i] = byte('0' + x%10)
		x /= 10
	}
	return append(append(buf, "user"...), digits[:]...)
}

// mix is the last step of splitmix64: a bijection on 64 bits.
func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// A permutation of [0, n) takes no memory: it is a bijection on the least
// power of two that is not below n, repeated until the answer is below n.
type permutation struct {
	n, mask uint64
	shift   int
}

func newPermutation(n uint64) permutation {
	width := max(2, bits.Len64(n-1))
	return permutation{n: n, mask: 1<<width - 1, shift: (width + 1) / 2}
}

// at is the place of i. Requires: i < n.
func (p permutation) at(i uint64) uint64 {
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

// values makes values that halve under snappy: 48 random bytes and 52 zeros.
type values struct {
	r   *rand.Rand
	buf [valueSize]byte
}

func newValues() *values { return &values{r: rand.New(rand.NewPCG(3, 4))} }

// next is valid until the next call.
func (v *values) next() []byte {
	for i := 0; i < 48; i += 8 {
		binary.LittleEndian.PutUint64(v.buf[i:], v.r.Uint64())
	}
	return v.buf[:]
}

// A slab holds the keys of one round of one workload, made before the clock
// starts, so that what is timed is lookups.
type slab struct {
	data   []byte
	absent bool
}

func (s slab) len() int         { return len(s.data) / keySize }
func (s slab) key(i int) []byte { return s.data[i*keySize : (i+1)*keySize : (i+1)*keySize] }

// part is the share of one of the readers.
func (s slab) part(reader, readers int) slab {
	n := s.len() / readers
	s.data = s.data[reader*n*keySize : (reader+1)*n*keySize]
	return s
}

// absentSlab has the absent keys with the numbers [from, from+count).
func (s keySpace) absentSlab(from uint64, count int) slab {
	data := make([]byte, 0, count*keySize)
	for i := range count {
		data = s.absent(data, from+uint64(i))
	}
	return slab{data: data, absent: true}
}

// presentSlab has present keys at random.
func (s keySpace) presentSlab(seed uint64, n, count int) slab {
	r := rand.New(rand.NewPCG(5, seed))
	data := make([]byte, 0, count*keySize)
	for range count {
		data = s.present(data, r.Uint64N(uint64(n)))
	}
	return slab{data: data}
}

func (s keySpace) String() string {
	if s.structured {
		return fmt.Sprintf("user%%012d, even of %d", 2*s.order.n)
	}
	return "16 random hexadecimal digits"
}
