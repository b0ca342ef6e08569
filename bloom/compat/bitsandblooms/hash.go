package bitsandblooms

import "github.com/shaledb/shale/bloom"

// hashes returns the four hashes of a key. The first two are the MurmurHash3 x64 128 of the
// key with seed 0, the others that of the key with a byte 1 appended.
func hashes(key []byte) (h [4]uint64) {
	var buf [256]byte // longer keys are copied to the heap
	h[0], h[1] = bloom.Murmur3(key)
	h[2], h[3] = bloom.Murmur3(append(append(buf[:0], key...), 1))
	return h
}

// location returns position i of a key before it is taken modulo m.
func location(h *[4]uint64, i uint64) uint64 { return h[i&1] + i*h[2+((i+i&1)&3)/2] }
