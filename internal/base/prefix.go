package base

import "encoding/binary"

// PrefixLen is the number of bytes of a key that Prefix returns.
const PrefixLen = 16

// Prefix returns the first 16 bytes of key as two big-endian integers. A shorter
// key is padded with zeros. If the prefixes of two keys differ, first in hi and
// then in lo, the keys are in the same order. If they are equal and one of the
// keys has at most 16 bytes, the shorter key is the beginning of the longer one.
func Prefix(key []byte) (hi, lo uint64) {
	if len(key) >= PrefixLen {
		return binary.BigEndian.Uint64(key), binary.BigEndian.Uint64(key[8:])
	}
	return shortPrefix(key)
}

// shortPrefix is Prefix for keys of less than PrefixLen bytes.
func shortPrefix(key []byte) (hi, lo uint64) {
	var b [PrefixLen]byte
	copy(b[:], key)
	return binary.BigEndian.Uint64(b[:]), binary.BigEndian.Uint64(b[8:])
}
