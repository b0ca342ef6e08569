package shale

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/shaledb/shale/bloom"
	"github.com/shaledb/shale/internal/testenv"
)

// The key that AppendValue looks up may lie in the memory that the value is appended to.
func TestAppendValue_KeyInDst(t *testing.T) {
	testenv.SkipRace(t)
	db := readStore(t)
	for i := range 2000 {
		key := fmt.Appendf(nil, "key%06d", i*7)
		want, err := db.Get(key)
		if err != nil {
			t.Fatal(err)
		}
		buf := append(make([]byte, 0, 600), key...)
		got, err := db.AppendValue(buf[:0], buf)
		if err != nil || !bytes.Equal(got, want) {
			t.Fatalf("%q: got %q, %v; want %q", key, got, err, want)
		}
		buf = append(make([]byte, 0, 600), key...)
		if got, err = db.AppendValue(buf[:2], buf[2:][:0]); err == nil {
			t.Fatalf("an empty key has the value %q", got)
		}
	}
	for _, c := range []struct {
		a, b, n, m int
		want       bool
	}{{0, 0, 4, 4, true}, {0, 4, 4, 4, false}, {4, 0, 4, 4, false}, {0, 3, 4, 4, true}, {3, 0, 4, 4, true}, {0, 2, 8, 1, true}} {
		var mem [16]byte
		if got := overlap(mem[c.a:c.a+c.n], mem[c.b:c.b+c.m]); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

// Filters that were made under another hash function or seed share one hash of the key in each
// lookup. To show that the second question does not hash again, the test changes the key.
func TestFilterHash_ForeignHashedOnce(t *testing.T) {
	filter := func(id bloom.HashID, seed uint64) *bloom.Static {
		h, err := bloom.NewHasher(id, seed)
		if err != nil {
			t.Fatal(err)
		}
		b, err := bloom.AppendStatic(nil, []uint64{1}, bloom.StaticOptions{BitsPerKey: 10, Hasher: h})
		if err != nil {
			t.Fatal(err)
		}
		f, err := bloom.OpenStatic(b)
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	murmur, first, second := filter(bloom.HashMurmur3, 0), filter(bloom.HashXXH3, 1), filter(bloom.HashXXH3, 2)
	for _, own := range []*bloom.Static{murmur, first} {
		l := lookup{key: []byte("key"), hasher: own.Hasher(), hash: own.Hasher().Hash([]byte("key"))}
		for _, f := range []*bloom.Static{second, own, second, murmur, first, murmur} {
			if got, want := l.hashFor(f), f.Hasher().Hash(l.key); got != want {
				t.Errorf("hash %x, want %x", got, want)
			}
		}
		hash := l.hashFor(second)
		l.key = []byte("another key")
		if l.hashFor(own) != l.hash || l.hashFor(second) != hash {
			t.Error("the second question to a filter with another hasher hashed the key again")
		}
	}
}
