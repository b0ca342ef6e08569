package bloom

import (
	"encoding/binary"
	"math/bits"
)

// The constants of MurmurHash3 x64 128 (Appleby 2011, public domain).
const (
	murmurC1 = 0x87c37b91114253d5
	murmurC2 = 0x4cf5ad432745937f
)

// Hash returns the hash of key that this package's filters are built from: the
// first 64 bits of MurmurHash3 x64 128 with seed 0. It is the same on every
// machine and will never change. Nothing is kept or allocated.
//
// The function is not keyed. Whoever may choose keys can make as many of them
// with one hash as they like (Aumasson and Bernstein 2012), so an equal hash
// never proves an equal key.
//
// Equal to spaolacci/murmur3.Sum128, which is compared in the tests. The tail is
// taken by one or two overlapping loads instead of byte by byte, and the second
// half of the digest is not made. Loads are little-endian by name, so that
// big-endian machines agree too.
//
// Measured, keys of 8/16/32/100 bytes: 3.8/4.6/6.6/15.2 ns, theirs 8.0/6.9/8.5/16.0.
// That is throughput. Of the latency only 8 bytes gain (5.9 ns against 9.9); 16
// to 100 are within 4 %, and 1000 bytes are 7 % slower than theirs.
func Hash(key []byte) uint64 {
	var h1, h2 uint64
	p := key
	for len(p) >= 16 {
		h1 ^= mixK1(binary.LittleEndian.Uint64(p))
		h1 = (bits.RotateLeft64(h1, 27)+h2)*5 + 0x52dce729
		h2 ^= mixK2(binary.LittleEndian.Uint64(p[8:]))
		h2 = (bits.RotateLeft64(h2, 31)+h1)*5 + 0x38495ab5
		p = p[16:]
	}
	switch {
	case len(p) > 8:
		// The last 8 bytes of p overlap the first 8: shift those out.
		last := binary.LittleEndian.Uint64(p[len(p)-8:])
		h2 ^= mixK2(last >> (8 * (16 - uint(len(p)))))
		h1 ^= mixK1(binary.LittleEndian.Uint64(p))
	case len(p) > 0:
		h1 ^= mixK1(loadTail(p))
	}
	n := uint64(len(key))
	h1 ^= n
	h2 ^= n
	h1 += h2
	h2 += h1
	return finish(h1) + finish(h2)
}

// loadTail returns p as a little-endian number. Requires: 1 to 8 bytes.
func loadTail(p []byte) uint64 {
	n := uint(len(p))
	switch {
	case n == 8:
		return binary.LittleEndian.Uint64(p)
	case n >= 4:
		low := uint64(binary.LittleEndian.Uint32(p))
		high := uint64(binary.LittleEndian.Uint32(p[n-4:]))
		return low | high<<(8*(n-4))
	}
	// One to three bytes: first, middle and last, which may be the same.
	return uint64(p[0]) | uint64(p[n/2])<<(8*(n/2)) | uint64(p[n-1])<<(8*(n-1))
}

func mixK1(k uint64) uint64 { return bits.RotateLeft64(k*murmurC1, 31) * murmurC2 }
func mixK2(k uint64) uint64 { return bits.RotateLeft64(k*murmurC2, 33) * murmurC1 }

// finish spreads every bit of h over the whole word.
func finish(h uint64) uint64 {
	h ^= h >> 33
	h *= 0xff51afd7ed558ccd
	h ^= h >> 33
	h *= 0xc4ceb9fe1a85ec53
	h ^= h >> 33
	return h
}
