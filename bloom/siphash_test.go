package bloom

import (
	"encoding/binary"
	"math/bits"
	"testing"
)

// sipReference is SipHash-c-d as its paper has it, byte by byte.
func sipReference(c, d int, k0, k1 uint64, p []byte) uint64 {
	v := [4]uint64{k0 ^ 0x736f6d6570736575, k1 ^ 0x646f72616e646f6d, k0 ^ 0x6c7967656e657261, k1 ^ 0x7465646279746573}
	rounds := func(n int) {
		for range n {
			v[0] += v[1]
			v[1] = bits.RotateLeft64(v[1], 13)
			v[1] ^= v[0]
			v[0] = bits.RotateLeft64(v[0], 32)
			v[2] += v[3]
			v[3] = bits.RotateLeft64(v[3], 16)
			v[3] ^= v[2]
			v[0] += v[3]
			v[3] = bits.RotateLeft64(v[3], 21)
			v[3] ^= v[0]
			v[2] += v[1]
			v[1] = bits.RotateLeft64(v[1], 17)
			v[1] ^= v[2]
			v[2] = bits.RotateLeft64(v[2], 32)
		}
	}
	padded := append([]byte(nil), p...)
	for len(padded)%8 != 7 {
		padded = append(padded, 0)
	}
	padded = append(padded, byte(len(p)))
	for ; len(padded) > 0; padded = padded[8:] {
		m := binary.LittleEndian.Uint64(padded)
		v[3] ^= m
		rounds(c)
		v[0] ^= m
	}
	v[2] ^= 0xff
	rounds(d)
	return v[0] ^ v[1] ^ v[2] ^ v[3]
}

// SipHash-1-3 of the bytes 0, 1, 2 ... as others make it: with the key of bytes
// 0 to 15 by `openssl mac -macopt c-rounds:1 -macopt d-rounds:3 SIPHASH` of
// OpenSSL 3, with the key 0 by the same and by DefaultHasher of Rust.
func TestSipHash_Vectors(t *testing.T) {
	for _, c := range []struct {
		n              int
		counting, zero uint64
	}{
		{0, 0xabac0158050fc4dc, 0xd1fba762150c532c},
		{1, 0xc9f49bf37d57ca93, 0x68a914128e01e473},
		{7, 0xd3927d989bb11140, 0x2f098ab0c751325a},
		{8, 0x369095118d299a8e, 0xead411e67ebe2eea},
		{9, 0x25a48eb36c063de4, 0x75927f9d95124362},
		{15, 0xd320d86d2a519956, 0xf30eb725bb91c9ea},
		{16, 0xcc4fdd1a7d908b66, 0x8972188433a5c5b7},
		{63, 0x9d199062b7bbb3a8, 0x385d3e39e5f37359},
	} {
		p := make([]byte, c.n)
		for i := range p {
			p[i] = byte(i)
		}
		if got := sipHash(p, 0x0706050403020100, 0x0f0e0d0c0b0a0908); got != c.counting {
			t.Errorf("%d bytes: %016x, want %016x", c.n, got, c.counting)
		}
		if got := sipHash(p, 0, 0); got != c.zero {
			t.Errorf("%d bytes, key 0: %016x, want %016x", c.n, got, c.zero)
		}
	}
}

func FuzzSipHash(f *testing.F) {
	for n := range 25 {
		f.Add(fill(n), uint64(n), uint64(1))
	}
	f.Fuzz(func(t *testing.T, p []byte, k0, k1 uint64) {
		if got, want := sipHash(p, k0, k1), sipReference(1, 3, k0, k1, p); got != want {
			t.Errorf("sipHash of %x with %x, %x = %016x, want %016x", p, k0, k1, got, want)
		}
	})
}
