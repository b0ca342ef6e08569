package bloom

import (
	"encoding/hex"
	"testing"

	"github.com/spaolacci/murmur3"
)

// fill returns n bytes that differ from their neighbours.
func fill(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(200 + n*31 + i*17)
	}
	return b
}

// reference is the module that Hash must equal.
func reference(key []byte) uint64 {
	h, _ := murmur3.Sum128(key)
	return h
}

// Digests of another implementation, one for each way through the tail. They make
// sure that the hash cannot change even where the reference is missing: every
// filter on disk depends on it.
func TestHash_Locked(t *testing.T) {
	for _, c := range []struct {
		key  string // in hexadecimal
		want uint64
	}{
		{"", 0x0000000000000000},
		{"e7", 0x33e0eac283a6fb7b},
		{"0617", 0xf15d006dd88daf61},
		{"253647", 0x54fb421bbabce781},
		{"44556677", 0x0cdcddf6a81831aa},
		{"63748596a7", 0xeb07735822bd0c7d},
		{"a1b2c3d4e5f607", 0x5fc9a70d0aa4e4f3},
		{"c0d1e2f304152637", 0x5e036bdd6fbd5260},
		{"dff001122334455667", 0xf2b364f2b12cb172},
		{"99aabbccddeeff1021324354657687", 0xdd84d01d622eeea9},
		{"b8c9daebfc0d1e2f405162738495a6b7", 0x819fd121bce4789e},
		{"d7e8f90a1b2c3d4e5f708192a3b4c5d6e7", 0xb0c571e912ee5755},
		{"c7d8e9fa0b1c2d3e4f60718293a4b5c6d7e8f90a1b2c3d4e5f708192a3b4c5d6e7", 0x1e66f21da3e03fc1},
	} {
		key, err := hex.DecodeString(c.key)
		if err != nil {
			t.Fatal(err)
		}
		if got := Hash(key); got != c.want {
			t.Errorf("Hash(%s) = %#016x, want %#016x", c.key, got, c.want)
		}
	}
}
