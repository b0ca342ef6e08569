// Package keys makes the keys of the benchmarks: present and absent ones by
// number, none of which is held in memory.
package keys

import "math/rand/v2"

// Size is the length of a key.
const Size = 16

// MaxEntries are what twelve digits can number.
const MaxEntries = 500_000_000_000

// A Space numbers present and absent keys without holding any. Each kind is
// a bijection from even numbers to present keys and from odd ones to absent
// keys, so no absent key is ever present; and absent keys lie between present
// ones. Keys that follow each other by number are scattered over the range.
type Space struct {
	structured     bool
	order, between Permutation
}

// NewSpace returns n keys of a kind, random or structured, and the absent ones.
func NewSpace(kind string, n int) Space {
	return Space{
		structured: kind == "structured",
		order:      NewPermutation(uint64(n)),
		between:    NewPermutation(uint64(n - 1)), // the gaps between n keys
	}
}

// Present appends the i-th key to be written to buf, i < n.
func (s Space) Present(buf []byte, i uint64) []byte {
	if s.structured {
		return appendUser(buf, 2*s.order.At(i))
	}
	return appendHex(buf, Mix(2*i))
}

// Absent appends the i-th absent key. Structured keys repeat after n-1, random
// ones never.
func (s Space) Absent(buf []byte, i uint64) []byte {
	if s.structured {
		return appendUser(buf, 2*s.between.At(i%s.between.n)+1)
	}
	return appendHex(buf, Mix(2*i+1))
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

// A Slab holds the keys of one round of one workload, made before the clock
// starts, so that what is timed is lookups.
type Slab struct {
	data   []byte
	absent bool
}

// Len is how many keys there are.
func (s Slab) Len() int { return len(s.data) / Size }

// Key is the i-th of them.
func (s Slab) Key(i int) []byte { return s.data[i*Size : (i+1)*Size : (i+1)*Size] }

// Absent reports whether the keys are absent ones.
func (s Slab) Absent() bool { return s.absent }

// AbsentSlab has the absent keys with the numbers [from, from+count).
func (s Space) AbsentSlab(from uint64, count int) Slab {
	data := make([]byte, 0, count*Size)
	for i := range count {
		data = s.Absent(data, from+uint64(i))
	}
	return Slab{data: data, absent: true}
}

// PresentSlab has present keys at random.
func (s Space) PresentSlab(seed uint64, n, count int) Slab {
	r := rand.New(rand.NewPCG(5, seed))
	data := make([]byte, 0, count*Size)
	for range count {
		data = s.Present(data, r.Uint64N(uint64(n)))
	}
	return Slab{data: data}
}

// PresentRange has the present keys with the numbers [from, from+count).
func (s Space) PresentRange(from uint64, count int) Slab {
	data := make([]byte, 0, count*Size)
	for i := range count {
		data = s.Present(data, from+uint64(i))
	}
	return Slab{data: data}
}
