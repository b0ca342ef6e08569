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

// Between returns where key is between smallest and largest, from 0 to 1, by the first eight
// bytes behind the prefix that these two share.
func Between(smallest, largest, key []byte) float64 {
	p := CommonPrefix(smallest, largest)
	if string(key[:min(p, len(key))]) != string(smallest[:p]) {
		if string(key) < string(smallest) {
			return 0
		}
		return 1
	}
	first, last, at := Head(smallest[p:]), Head(largest[p:]), Head(key[p:])
	switch {
	case at <= first:
		return 0
	case at >= last:
		return 1
	}
	return float64(at-first) / float64(last-first)
}
