// Package syndrome finds small errors in bytes that have a crc32c checksum.
//
// A checksum is linear. The syndrome is the difference between the checksum that
// a message has and the one that it should have. It depends only on which bits
// are wrong, and not on the message. So a small error can be computed from the
// syndrome, and no message has to be tried. As an example, take 100 bytes with
// the checksum that package hash/crc32 gives them, and flip bit 3 of byte 17:
// the syndrome is that of Flip{Pos: 17, Mask: 8}, and of no other single flip.
//
// If the error is not small, the syndrome is like a random number: the second half
// of the message may be missing, for example. By chance it is then taken for a
// small error, with a probability of Class/2^32. Class is the number of errors that
// would have been accepted. Callers choose how much of that they want to risk.
package syndrome

import (
	"hash/crc32"
	"math/bits"
	"slices"
)

var table = crc32.MakeTable(crc32.Castagnoli)

// inverse[b] is the index of the entry of table whose
// highest byte is b. All entries differ in that byte.
var inverse = func() (inv [256]byte) {
	for i, v := range table {
		inv[v>>24] = byte(i)
	}
	return inv
}()

// step returns the register of the checksum after one more byte of 0.
func step(r uint32) uint32 { return table[byte(r)] ^ r>>8 }

// back reverses step.
func back(r uint32) uint32 {
	i := inverse[r>>24]
	return (r^table[i])<<8 | uint32(i)
}

// Back goes back n bytes. If the checksum of a whole message is wrong by d,
// Back returns by how much the checksum was wrong n bytes before the end.
func Back(d uint32, n int) uint32 {
	for range n {
		d = back(d)
	}
	return d
}

// A Flip is a byte with wrong bits.
type Flip struct {
	Pos  int  // index in the message; from its length up: in the 4 bytes of the checksum, little-endian
	Mask byte // the wrong bits
}

// An Error is a small error: one or two wrong bytes.
type Error struct {
	Flips [2]Flip
	N     int    // number of Flips in use
	Class uint64 // number of possible errors of this kind and of more likely ones
}

// Bits returns the number of errors of one bit in n bytes and their checksum.
func Bits(n int) uint64 { return 8 * uint64(n+crc32.Size) }

// Find returns the errors of a message of n bytes that have the given syndrome. It looks
// for these kinds in this order, and returns all errors of the first kind that has any:
//
//  1. a single bit;
//  2. several bits within one byte;
//  3. two bits;
//  4. bits within two neighbouring bytes.
//
// It skips the kinds that have more than most errors. Time
// and memory grow with n, and with the square root of most.
//
// Requires: syndrome is not 0.
func Find(n int, syndrome uint32, most uint64) []Error {
	size := n + crc32.Size
	oneBit, oneByte, twoBytes := Bits(n), 255*uint64(size), 65535*uint64(size)
	twoBits := oneBit * oneBit / 2
	var inBytes, inPairs []Error
	// r is the error of the four bytes from pos up,
	// as a number, if all other bytes are right.
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

// pairs returns the errors of two bits in size bytes, which include
// the checksum. It computes the syndrome of every single bit, sorts
// them, and looks for pairs whose combination is the syndrome.
func pairs(size int, syndrome uint32, class uint64) (found []Error) {
	all := make([]uint64, 0, 8*size) // the syndrome of a bit, and below it the index of the bit
	for bit := range 8 {
		v := uint32(1) << (24 + bit) // syndrome of the bit in the last byte
		for pos := size - 1; pos >= 0; pos, v = pos-1, step(v) {
			all = append(all, uint64(v)<<32|uint64(8*pos+bit))
		}
	}
	slices.Sort(all)
	for _, a := range all {
		other := uint32(a>>32) ^ syndrome
		i, _ := slices.BinarySearch(all, uint64(other)<<32)
		if i < len(all) && uint32(all[i]>>32) == other && uint32(a) < uint32(all[i]) {
			a, b := uint32(a), uint32(all[i])
			found = append(found, Error{Flips: [2]Flip{{int(a / 8), 1 << (a % 8)}, {int(b / 8), 1 << (b % 8)}}, N: 2, Class: class})
		}
	}
	return found
}
