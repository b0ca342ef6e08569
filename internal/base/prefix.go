package base

import "encoding/binary"

// PrefixLen is how many bytes of a key Prefix takes.
const PrefixLen = 16

// Prefix returns the first 16 bytes of key as two big-endian integers, with
// zeros behind a shorter key. If the prefixes of two keys differ, first by hi
// and then by lo, so do the keys, in the same direction. If they are equal
// and one of the keys has no more than 16 bytes, the shorter key is the
// beginning of the longer one.
func Prefix(key []byte) (hi, lo uint64) {
	if len(key) >= PrefixLen {
		return binary.BigEndian.Uint64(key), binary.BigEndian.Uint64(key[8:])
	}
	return shortPrefix(key)
}

func shortPrefix(key []byte) (hi, lo uint64) {
	var b [PrefixLen]byte
	copy(b[:], key)
	return binary.BigEndian.Uint64(b[:]), binary.BigEndian.Uint64(b[8:])
}
