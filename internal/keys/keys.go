// Package keys compares keys by their first bytes. It imports no other package
// of shale, because package bundle uses it and can be used without the store.
package keys

import "encoding/binary"

// Head returns the first eight bytes of key as a big-endian integer. A
// shorter key is padded with zeros. If a < b then Head(a) <= Head(b).
func Head(key []byte) uint64 {
	if len(key) >= 8 {
		return binary.BigEndian.Uint64(key)
	}
	var head uint64
	for i, c := range key {
		head |= uint64(c) << (56 - 8*uint(i))
	}
	return head
}

// CommonPrefix returns the length of the longest prefix that a and b share.
func CommonPrefix(a, b []byte) int {
	n := min(len(a), len(b))
	if string(a[:n]) == string(b[:n]) {
		return n
	}
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}
