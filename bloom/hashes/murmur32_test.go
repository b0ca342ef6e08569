package hashes

import (
	"encoding/hex"
	"testing"

	"github.com/spaolacci/murmur3"

	"github.com/shaledb/shale/internal/testenv"
)

// The hashes of Bitcoin Core's hash_tests, and those that the README of Python's mmh3 shows.
func TestMurmur32(t *testing.T) {
	for _, c := range []struct {
		want, seed uint32
		data       string
	}{
		{0x00000000, 0x00000000, ""}, {0x6a396f08, 0xfba4c795, ""}, {0x81f16f39, 0xffffffff, ""},
		{0x514e28b7, 0, "00"}, {0xea3f0b17, 0xfba4c795, "00"}, {0xfd6cf10d, 0, "ff"},
		{0x16c6b7ab, 0, "0011"}, {0x8eb51c3d, 0, "001122"}, {0xb4471bf8, 0, "00112233"},
		{0xe2301fa8, 0, "0011223344"}, {0xfc2e4a15, 0, "001122334455"}, {0xb074502c, 0, "00112233445566"},
		{0x8034d2a0, 0, "0011223344556677"}, {0xb4698def, 0, "001122334455667788"},
		{^uint32(156908512) + 1, 0, "666f6f"}, {^uint32(1322301282) + 1, 42, "666f6f"},
	} {
		key, err := hex.DecodeString(c.data)
		if err != nil {
			t.Fatal(err)
		}
		if got := Murmur32(key, c.seed); got != c.want {
			t.Errorf("hash of %q with seed %08x = %08x, want %08x", c.data, c.seed, got, c.want)
		}
	}
}

// Keys of every length are hashed as by spaolacci/murmur3, which crashes under the race detector.
func TestMurmur32_AsTheReference(t *testing.T) {
	testenv.SkipRace(t)
	testenv.NeedsReference(t)
	key := make([]byte, 100)
	for i := range key {
		key[i] = byte(i*31 + 200)
	}
	for n := range key {
		if got, want := Murmur32(key[:n], uint32(n)), murmur3.Sum32WithSeed(key[:n], uint32(n)); got != want {
			t.Errorf("hash of %d bytes = %08x, want %08x", n, got, want)
		}
	}
}
