package bloom

import (
	"encoding/binary"
	"encoding/hex"
	"math/rand/v2"
	"testing"

	"github.com/shaledb/shale/bloom/internal/filtertest"
	"github.com/shaledb/shale/internal/testenv"
	"github.com/spaolacci/murmur3"
)

func TestMurmur3_EqualsReference(t *testing.T) {
	testenv.NeedsReference(t)
	r := rand.New(rand.NewPCG(6, 0))
	buf := make([]byte, 400)
	rounds := 100_000
	if filtertest.Short() {
		rounds = 10_000
	}
	for i := range rounds {
		for i := 0; i < len(buf); i += 8 {
			binary.LittleEndian.PutUint64(buf[i:], r.Uint64())
		}
		start := r.IntN(16)
		key := buf[start : start+r.IntN(70)]
		if i < 380 {
			key = buf[:i]
		}
		h1, h2 := Murmur3(key)
		if want1, want2 := murmur3.Sum128(key); h1 != want1 || h2 != want2 || h1 != Hash(key) {
			t.Fatalf("Murmur3(%x) = %016x %016x, want %016x %016x; Hash %016x", key, h1, h2, want1, want2, Hash(key))
		}
	}
}

// Digests of another implementation, Guava's, so that the hash cannot change
// where the reference is missing.
func TestMurmur3_Locked(t *testing.T) {
	for _, c := range []struct{ key, digest string }{
		{"", "00000000000000000000000000000000"},
		{"e7", "7bfba683c2eae033b3927d76e1a473fa"},
		{"0617", "61af8dd86d005df16b08d56dcd8cfd55"},
		{"253647", "81e7bcba1b42fb548cbafb7a40138b91"},
	} {
		key, err := hex.DecodeString(c.key)
		if err != nil {
			t.Fatal(err)
		}
		h1, h2 := Murmur3(key)
		if got := binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(nil, h1), h2); hex.EncodeToString(got) != c.digest {
			t.Errorf("Murmur3(%x) = %x, want %s", key, got, c.digest)
		}
	}
}

func TestHasher_Hash128(t *testing.T) {
	for _, h := range everyHasher() {
		seen := make(map[uint64]bool)
		for n := range 200 {
			h1, h2 := h.Hash128(fill(n))
			if h1 != h.Hash(fill(n)) || h1 == h2 && h1 != 0 {
				t.Errorf("%v of %d bytes: %016x %016x, Hash %016x", h.ID(), n, h1, h2, h.Hash(fill(n)))
			}
			seen[h2] = true
		}
		if len(seen) != 200 {
			t.Errorf("%v: %d second words of 200 keys", h.ID(), len(seen))
		}
	}
}

func FuzzMurmur3(f *testing.F) {
	testenv.NeedsReference(f)
	for n := range 40 {
		f.Add(fill(n))
	}
	f.Fuzz(func(t *testing.T, key []byte) {
		h1, h2 := Murmur3(key)
		if want1, want2 := murmur3.Sum128(key); h1 != want1 || h2 != want2 || Hash(key) != want1 {
			t.Errorf("Murmur3(%x) = %016x %016x, want %016x %016x; Hash %016x", key, h1, h2, want1, want2, Hash(key))
		}
	})
}
