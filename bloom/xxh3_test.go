package bloom

import (
	"testing"

	"github.com/shaledb/shale/bloom/internal/filtertest"
	"github.com/zeebo/xxh3"
)

func TestXXH3_EqualsReference(t *testing.T) {
	seeds := append(filtertest.RandomHashes(1, 8), 0, 1, 1<<31, 1<<32, 1<<63, 1<<64-1)
	for n := range 1100 {
		key := fill(n)
		for _, seed := range seeds {
			if got, want := xxh3Of(key, seed), xxh3.HashSeed(key, seed); got != want {
				t.Fatalf("xxh3 of %d bytes, seed %#x = %016x, want %016x", n, seed, got, want)
			}
		}
		if got, want := xxh3Of(key, 0), xxh3.Hash(key); got != want {
			t.Fatalf("xxh3 of %d bytes = %016x, want %016x", n, got, want)
		}
	}
	// Around the ends of blocks of 16 stripes.
	for _, n := range []int{1023, 1024, 1025, 1088, 2047, 2048, 2049, 2112, 3000, 65535, 65536, 65537} {
		key := fill(n)
		if got, want := xxh3Of(key, 7), xxh3.HashSeed(key, 7); got != want {
			t.Errorf("xxh3 of %d bytes = %016x, want %016x", n, got, want)
		}
	}
}

func xxh3Of(key []byte, seed uint64) uint64 {
	h, err := NewHasher(HashXXH3, seed)
	if err != nil {
		panic(err)
	}
	return h.Hash(key)
}

// Digests of the reference, one for each way through the function. They make sure that the
// hash cannot change even where the reference is missing: filters on disk depend on it.
func TestXXH3_Locked(t *testing.T) {
	for _, c := range xxh3Locked {
		if got := xxh3Of(fill(c.n), c.seed); got != c.want {
			t.Errorf("xxh3 of fill(%d), seed %#x = %#016x, want %#016x", c.n, c.seed, got, c.want)
		}
	}
}

func FuzzXXH3(f *testing.F) {
	for _, n := range []int{0, 1, 2, 3, 4, 8, 9, 16, 17, 32, 33, 64, 65, 96, 97, 128, 129, 240, 241, 1024, 1025, 3000} {
		f.Add(fill(n), uint64(n))
	}
	f.Fuzz(func(t *testing.T, key []byte, seed uint64) {
		if got, want := xxh3Of(key, seed), xxh3.HashSeed(key, seed); got != want {
			t.Errorf("xxh3 of %x, seed %x = %016x, want %016x", key, seed, got, want)
		}
	})
}

var xxh3Locked = []struct {
	n          int // bytes
	seed, want uint64
}{
	{0, 0x0, 0x2d06800538d394c2},
	{0, 0x123456789abcdef, 0xcc1ca35a1b089c5c},
	{1, 0x0, 0x3925e259e79aa90d},
	{1, 0x123456789abcdef, 0xfc4d9e19f29885b4},
	{2, 0x0, 0x671f69e3ae41b512},
	{2, 0x123456789abcdef, 0x2364777009956b36},
	{3, 0x0, 0x7d16acd26526ffbb},
	{3, 0x123456789abcdef, 0xd83c6175156c1a5b},
	{4, 0x0, 0x4fafd0060c3c244e},
	{4, 0x123456789abcdef, 0x733738a79a530ed1},
	{7, 0x0, 0xf1b1a8b69faf2298},
	{7, 0x123456789abcdef, 0xc81419042264eb57},
	{8, 0x0, 0x149740e51f135312},
	{8, 0x123456789abcdef, 0x5d63b9868539f05a},
	{9, 0x0, 0xa4a4935a89a0f876},
	{9, 0x123456789abcdef, 0xbb7cb5be1380e9ae},
	{16, 0x0, 0x4a3310bb90bc46d5},
	{16, 0x123456789abcdef, 0x1dcedbdf39a1317d},
	{17, 0x0, 0x9f6cf3566bccc60a},
	{17, 0x123456789abcdef, 0x38c991131835705f},
	{32, 0x0, 0x25699f461687cf9c},
	{32, 0x123456789abcdef, 0x3d4a214869f6ce8f},
	{33, 0x0, 0x6bae769c5eb2f8df},
	{33, 0x123456789abcdef, 0x9106b90ef9acef1c},
	{64, 0x0, 0x23460810a7f0a5e6},
	{64, 0x123456789abcdef, 0xaf2bed0794a292e1},
	{65, 0x0, 0x6591b1d81e7ed218},
	{65, 0x123456789abcdef, 0xd97208105968d723},
	{96, 0x0, 0x77310317782ce9dd},
	{96, 0x123456789abcdef, 0x5498e5ae8068659f},
	{97, 0x0, 0x910cfb4fe4e503ac},
	{97, 0x123456789abcdef, 0x4b3045b88ac4a31e},
	{128, 0x0, 0x11cdc489971a3c2a},
	{128, 0x123456789abcdef, 0x255fb889d5452cc1},
	{129, 0x0, 0x611f98e9a1f36b1e},
	{129, 0x123456789abcdef, 0x5f2bd277743f5d34},
	{240, 0x0, 0xcd5fe422f141dbd6},
	{240, 0x123456789abcdef, 0xf89dd7e0ad09c08d},
	{241, 0x0, 0x8f73fba60bc58825},
	{241, 0x123456789abcdef, 0x12e719522828b45c},
	{1024, 0x0, 0x9512b3027301cbf1},
	{1024, 0x123456789abcdef, 0x3113918bed173385},
	{1025, 0x0, 0x2dcbeb16329bc0e8},
	{1025, 0x123456789abcdef, 0x17136b81410a6032},
	{3000, 0x0, 0x0bcca157da079186},
	{3000, 0x123456789abcdef, 0x08708db11f5ce742},
}
