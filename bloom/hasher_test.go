package bloom

import (
	"errors"
	"math"
	"testing"

	"github.com/shaledb/shale/bloom/internal/filtertest"
)

// hasherOf returns a Hasher. It fails if there is none.
func hasherOf(id HashID, seed uint64) Hasher {
	h, err := NewHasher(id, seed)
	if err != nil {
		panic(err)
	}
	return h
}

// everyHasher has each function, with seeds if it takes any.
func everyHasher() []Hasher {
	return []Hasher{
		{}, hasherOf(HashXXH3, 0), hasherOf(HashXXH3, 1<<63+5), hasherOf(HashSipHash, 0), hasherOf(HashSipHash, math.MaxUint64),
	}
}

func TestHasher_SaysWhatItIs(t *testing.T) {
	for _, c := range []struct {
		id   HashID
		seed uint64
		name string
	}{{HashMurmur3, 0, "murmur3"}, {HashXXH3, 0, "xxh3"}, {HashXXH3, 9, "xxh3"}, {HashSipHash, 0, "siphash"}, {HashSipHash, 9, "siphash"}} {
		h := hasherOf(c.id, c.seed)
		if h.ID() != c.id || h.Seed() != c.seed || h.ID().String() != c.name {
			t.Errorf("%v with seed %d: %d, %v with %d", c.name, c.seed, h.ID(), h.ID(), h.Seed())
		}
		if again := hasherOf(h.ID(), h.Seed()); again != h {
			t.Errorf("%v with seed %d differs from itself", c.name, c.seed)
		}
		if (h == Hasher{}) != (c.id == HashMurmur3) {
			t.Errorf("%v with seed %d: equal to the zero Hasher: %v", c.name, c.seed, h == Hasher{})
		}
	}
	if h := (Hasher{}); h.Hash(fill(20)) != Hash(fill(20)) {
		t.Error("the zero Hasher is not Hash")
	}
}

func TestNewHasher_Unknown(t *testing.T) {
	for _, c := range []struct {
		id   HashID
		seed uint64
	}{{0, 0}, {0, 1}, {HashMurmur3, 1}, {HashMurmur3, 1 << 63}, {HashSipHash + 1, 0}, {255, 7}} {
		h, err := NewHasher(c.id, c.seed)
		if !errors.Is(err, ErrUnknown) || h != (Hasher{}) {
			t.Errorf("NewHasher(%d, %d) = %v, %v, want ErrUnknown", c.id, c.seed, h, err)
		}
	}
	if got := (HashSipHash + 1).String(); got != "unknown" {
		t.Errorf("String() = %q", got)
	}
}

// The bytes of filters depend on how the key follows from the seed. The hashes are those
// of OpenSSL 3 with these keys.
func TestHasher_SipHashKeyLocked(t *testing.T) {
	for _, c := range []struct{ seed, k1, hash uint64 }{
		{0, 0x9ca066f1a4ab2eea, 0x1f9888ab5b65f2f1},
		{1, 0xe5fdc025e13eeed5, 0x08fed2166adba4b6},
		{0x0123456789abcdef, 0x10fb162319e1a485, 0xaa10683cc6d62758},
	} {
		key := []byte("key-0")
		if got := sipKey(c.seed); got != c.k1 {
			t.Errorf("sipKey(%#x) = %#x, want %#x", c.seed, got, c.k1)
		}
		got := hasherOf(HashSipHash, c.seed).Hash(key)
		if want := sipReference(1, 3, c.seed, c.k1, key); got != c.hash || want != c.hash {
			t.Errorf("seed %#x: Hash(%q) = %#x, reference %#x, want %#x", c.seed, key, got, want, c.hash)
		}
	}
}

// Sixteen keys with one murmur3 hash, under each of its seeds, have sixteen
// hashes here.
func TestHasher_SipHashParts(t *testing.T) {
	h := hasherOf(HashSipHash, 0x0123456789abcdef)
	keys := filtertest.Collisions(t)
	seen := make(map[uint64]bool)
	for _, key := range keys {
		seen[h.Hash(key)] = true
	}
	if len(seen) != len(keys) {
		t.Errorf("%d hashes of %d keys", len(seen), len(keys))
	}
}
