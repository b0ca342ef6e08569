// Package syndrome finds a flipped bit in bytes that have a crc32c checksum, and says whether a
// torn write may have left it.
//
// A checksum is linear. The syndrome is the difference between the checksum that a message has
// and the one that it should have. It depends only on which bits are wrong, and not on the
// message. So the flipped bit can be computed, and no message has to be tried. As an example,
// take 100 bytes with the checksum that package hash/crc32 gives them, and flip bit 3 of byte
// 17: the syndrome is that of this bit, and of no other.
package syndrome

import (
	"hash/crc32"
	"math/bits"
)

var table = crc32.MakeTable(crc32.Castagnoli)

// inverse[b] is the index of the entry of table whose highest byte is b. All entries differ in
// that byte.
var inverse = func() (inv [256]byte) {
	for i, v := range table {
		inv[v>>24] = byte(i)
	}
	return inv
}()

// OneBit returns the byte and the mask of the one wrong bit of a message of n bytes that has
// this syndrome. A pos from n up is in the 4 bytes of the checksum, little-endian. ok is false
// if no single bit has the syndrome. Bytes with larger errors, as half a message has them, have
// a syndrome like a random number: by chance it belongs to one bit, with a probability of
// (8n + 32) / 2^32.
//
// Requires: syndrome is not 0.
func OneBit(n int, syndrome uint32) (pos int, mask byte, ok bool) {
	// r is the error of the four bytes from pos up, as a number, if all other bytes are right.
	r := syndrome
	for range crc32.Size - 1 {
		r = table[byte(r)] ^ r>>8
	}
	for pos = n + crc32.Size - 1; pos >= 0; pos-- {
		if r < 1<<8 && bits.OnesCount32(r) == 1 {
			return pos, byte(r), true
		}
		i := inverse[r>>24]
		r = (r^table[i])<<8 | uint32(i)
	}
	return 0, 0, false
}

const (
	sectorSize = 512 // bytes that a disk writes completely or not at all
	wordSize   = 8   // bytes that are copied at once, but for those before the first whole word and after the last
	few        = 4   // fewer bytes than this may look by chance as if one bit were wrong
)

// MayBeOld reports whether a write that a crash cut short may have left byte pos of b wrong. b
// is the write as it was read, and begins at offset off of a file that had only zeros there.
//
// A cut leaves the older bytes in whole sectors. A sector that was on its way to the disk while
// it was written may have them from some byte up, or in some words. So the byte must be zero,
// and the zeros around it must reach to the end of the sector or of b, or be as long as a word,
// or reach from the beginning of b to this byte, before the first whole word. A sector of which
// b has only a few bytes may hold anything, if the file grew by it.
func MayBeOld(off int64, b []byte, pos int) bool {
	in := int((off + int64(pos)) % sectorSize)
	from, to := max(0, pos-in), min(len(b), pos-in+sectorSize)
	if to-from < few {
		return true
	}
	if b[pos] != 0 {
		return false
	}
	i, j := pos, pos+1
	for i > from && b[i-1] == 0 {
		i--
	}
	for j < to && b[j] == 0 {
		j++
	}
	head := int(-off & (wordSize - 1)) // bytes before the first whole word
	return j == to || j-i >= wordSize || i == 0 && pos < head
}
