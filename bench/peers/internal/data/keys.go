// Package data makes the entries of the benchmark by number: keys, absent
// keys and values that can be checked, none of which is held in memory. Each
// takes some tens of nanoseconds, which count in every figure.
package data

import (
	"encoding/binary"

	"github.com/shaledb/shale/bench/peers/internal/keys"
)

// KeySize is the length of every key.
const KeySize = 16

// Kinds are the kinds of keys: 16 random bytes; 16 hexadecimal digits of a
// mixed number; user%012d, even numbers present and odd ones absent.
var Kinds = []string{"random", "hashed", "structured"}

// MaxEntries is how many keys twelve digits can number, and a fill in order.
const MaxEntries = 400_000_000_000

// A Space numbers keys. Present and Absent are bijections, so that no absent
// key is ever present, and absent keys lie between present ones. Keys that
// follow each other by number are scattered over the range; those of Ordered
// ascend.
type Space struct {
	kind   string
	n      uint64
	order  keys.Permutation
	stride uint64 // between ordered keys
}

// NewSpace returns n keys of a kind.
func NewSpace(kind string, n int) Space {
	return Space{kind: kind, n: uint64(n), order: keys.NewPermutation(uint64(n)), stride: 1<<63/uint64(n)*2 - 1}
}

// N is the number of keys that a fill writes.
func (s *Space) N() uint64 { return s.n }

// A Key is written over by the next key of its space.
type Key [KeySize]byte

// Present makes the i-th key of a random fill. Keys with i >= N are there for
// inserts.
func (s *Space) Present(k *Key, i uint64) []byte {
	switch s.kind {
	case "structured":
		if i < s.n {
			i = s.order.At(i)
		}
		return k.user(2 * i)
	case "hashed":
		return k.hex(keys.Mix(2 * i))
	default:
		return k.bytes(keys.Mix(2 * i))
	}
}

// Absent makes the i-th absent key. Structured ones repeat after N-1.
func (s *Space) Absent(k *Key, i uint64) []byte {
	switch s.kind {
	case "structured":
		i = s.order.At(i % s.n)
		if i == s.n-1 {
			i = 0 // it would lie after the last key
		}
		return k.user(2*i + 1)
	case "hashed":
		return k.hex(keys.Mix(2*i + 1))
	default:
		return k.bytes(keys.Mix(2*i + 1))
	}
}

// Ordered makes the i-th key of a fill in order.
func (s *Space) Ordered(k *Key, i uint64) []byte {
	switch s.kind {
	case "structured":
		return k.user(2 * i)
	case "hashed":
		return k.hex(i * s.stride)
	default:
		return k.bytes(i * s.stride)
	}
}

// Scattered is a permutation of the numbers below N.
func (s *Space) Scattered(i uint64) uint64 { return s.order.At(i) }

// After is about how many of the N keys follow a key.
func (s *Space) After(key []byte) uint64 {
	var part float64 // of the range that lies before the key
	switch s.kind {
	case "structured":
		var x uint64
		for _, c := range key[4:] {
			x = x*10 + uint64(c-'0')
		}
		part = float64(x) / float64(2*s.n)
	case "hashed":
		var x uint64
		for _, c := range key[:8] {
			x = x<<4 | uint64(c&15+c>>6*9)
		}
		part = float64(x) / (1 << 32)
	default:
		part = float64(binary.BigEndian.Uint64(key)) / (1 << 64)
	}
	return uint64(max(0, 1-part) * float64(s.n))
}

// bytes are x, and what else of it makes 16 bytes.
func (k *Key) bytes(x uint64) []byte {
	binary.BigEndian.PutUint64(k[:8], x)
	binary.BigEndian.PutUint64(k[8:], keys.Mix(x+0x9e3779b97f4a7c15))
	return k[:]
}

// hex writes eight digits at a time: the nibbles of half of x are spread over
// eight bytes, and those above 9 get the distance of 'a' from ':'.
func (k *Key) hex(x uint64) []byte {
	binary.BigEndian.PutUint64(k[:8], digits(x>>32))
	binary.BigEndian.PutUint64(k[8:], digits(x&(1<<32-1)))
	return k[:]
}

func digits(x uint64) uint64 {
	x = (x | x<<16) & 0x0000ffff0000ffff
	x = (x | x<<8) & 0x00ff00ff00ff00ff
	x = (x | x<<4) & 0x0f0f0f0f0f0f0f0f
	letters := (x + 0x0606060606060606) >> 4 & 0x0101010101010101
	return x + 0x3030303030303030 + letters*('a'-'9'-1)
}

// user writes user%012d.
func (k *Key) user(x uint64) []byte {
	copy(k[:], "user")
	for i := KeySize - 2; i >= 4; i -= 2 {
		pair := x % 100
		x /= 100
		k[i], k[i+1] = byte('0'+pair/10), byte('0'+pair%10)
	}
	return k[:]
}
