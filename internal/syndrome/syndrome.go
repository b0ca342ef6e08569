// Package syndrome finds small errors in bytes that carry a crc32c.
//
// A checksum is linear: the difference between the checksum that a message carries and the one that it should carry,
// the syndrome, depends on which bits are wrong, and not on the message. So a small error can be computed from the
// syndrome, without trying all messages. As an example, take 100 bytes with the checksum that package hash/crc32 gives
// them, and flip bit 3 of byte 17: the syndrome is that of Flip{Pos: 17, Mask: 8}, and of no other single flip.
//
// A syndrome that does not come from a small error (of a message whose second half is missing, say) is like a random
// number. It is taken for a small error by chance, with a probability of Class/2^32, where Class is the number of
// errors that would have been accepted. Callers choose how much of that they want to risk.
package syndrome

import (
	"cmp"
	"hash/crc32"
	"math/bits"
	"slices"
)

var table = crc32.MakeTable(crc32.Castagnoli)

// inverse[b] is the index of the entry of table whose highest byte is b: the entries differ in it.
var inverse = func() (inv [256]byte) {
	for i, v := range table {
		inv[v>>24] = byte(i)
	}
	return inv
}()

// step returns the register of the checksum after one more byte, 0.
func step(r uint32) uint32 { return table[byte(r)] ^ r>>8 }

// back is the reverse of step.
func back(r uint32) uint32 {
	i := inverse[r>>24]
	return (r^table[i])<<8 | uint32(i)
}

// Back returns the difference that, in the checksum of a message's beginning, gives the difference d in the checksum
// of the whole message, which is n bytes longer.
func Back(d uint32, n int) uint32 {
	for range n {
		d = back(d)
	}
	return d
}

// A Flip is a byte with wrong bits.
type Flip struct {
	Pos  int  // in the message; from its length up, in the 4 bytes of the checksum, little-endian
	Mask byte // the wrong bits
}

// An Error is a small error: one byte, or two of them.
type Error struct {
	Flips [2]Flip
	N     int
	Class uint64 // how many errors are of this size or of a more likely one
}

// Bits returns how many errors of one bit there are in n bytes and their checksum.
func Bits(n int) uint64 { return 8 * uint64(n+crc32.Size) }

// Find returns the errors of a message of n bytes that have the syndrome: the one of a single bit, else those within
// one byte, else those of two bits, else those within two neighbouring bytes. It skips the kinds of which there are
// more than most. Time and memory grow with n, and with the square root of most.
//
// Requires: syndrome is not 0.
func Find(n int, syndrome uint32, most uint64) []Error {
	size := n + crc32.Size
	oneBit, oneByte, twoBytes := Bits(n), 255*uint64(size), 65535*uint64(size)
	twoBits := oneBit * oneBit / 2
	var inBytes, inPairs []Error
	// r is what the bytes from pos up must be wrong by, if all others are right.
	r := step(step(step(syndrome)))
	for pos := size - 1; pos >= 0 && oneBit <= most; pos, r = pos-1, back(r) {
		switch {
		case r >= 1<<16 || r >= 1<<8 && twoBytes > most:
		case r >= 1<<8:
			if pos+1 < size && byte(r) != 0 {
				inPairs = append(inPairs, Error{Flips: [2]Flip{{pos, byte(r)}, {pos + 1, byte(r >> 8)}}, N: 2, Class: twoBytes})
			}
		case bits.OnesCount32(r) == 1:
			return []Error{{Flips: [2]Flip{{pos, byte(r)}}, N: 1, Class: oneBit}}
		case oneByte <= most:
			inBytes = append(inBytes, Error{Flips: [2]Flip{{pos, byte(r)}}, N: 1, Class: oneByte})
		}
	}
	if len(inBytes) > 0 {
		return inBytes
	}
	if twoBits <= most {
		if found := pairs(size, syndrome, twoBits); len(found) > 0 {
			return found
		}
	}
	return inPairs
}

// pairs returns the errors of two bits in size bytes, the checksum included.
func pairs(size int, syndrome uint32, class uint64) (found []Error) {
	type single struct {
		syndrome uint32
		at       uint32 // the bit
	}
	all := make([]single, 0, 8*size)
	for bit := range 8 {
		v := uint32(1) << (24 + bit) // of the last byte
		for pos := size - 1; pos >= 0; pos, v = pos-1, step(v) {
			all = append(all, single{v, uint32(8*pos + bit)})
		}
	}
	slices.SortFunc(all, func(a, b single) int { return cmp.Compare(a.syndrome, b.syndrome) })
	for _, a := range all {
		i, ok := slices.BinarySearchFunc(all, a.syndrome^syndrome, func(b single, v uint32) int { return cmp.Compare(b.syndrome, v) })
		if ok && a.at < all[i].at {
			b := all[i]
			found = append(found, Error{Flips: [2]Flip{{int(a.at / 8), 1 << (a.at % 8)}, {int(b.at / 8), 1 << (b.at % 8)}}, N: 2, Class: class})
		}
	}
	return found
}
