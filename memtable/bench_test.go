package memtable

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"

	"github.com/shaledb/shale/internal/base"
)

// benchKeys are the shapes that the figures in DESIGN.md speak of. The last
// one cannot be told apart by an entry's two words.
var benchKeys = []struct {
	name string
	key  func(r *rand.Rand, i int) []byte
}{
	{"random16", func(r *rand.Rand, i int) []byte {
		b := binary.BigEndian.AppendUint64(nil, r.Uint64())
		return binary.BigEndian.AppendUint64(b, r.Uint64())
	}},
	{"user12d", func(r *rand.Rand, i int) []byte { return fmt.Appendf(nil, "user%012d", r.Uint32()) }},
	{"ascending", func(r *rand.Rand, i int) []byte { return fmt.Appendf(nil, "user%012d", i) }},
	{"url", func(r *rand.Rand, i int) []byte { return fmt.Appendf(nil, "https://example.org/%08x", r.Uint32()) }},
}

func makeKeys(key func(r *rand.Rand, i int) []byte, n int) (keys [][]byte) {
	r := rand.New(rand.NewPCG(1, 2))
	for i := range n {
		k := key(r, i)
		keys = append(keys, k)
	}
	return keys
}

func fill(m *Memtable, keys [][]byte, value []byte) {
	for i, k := range keys {
		m.BeginWrite()
		m.Add(base.Seq(i+1), base.KindPut, k, value)
		m.EndWrite()
	}
}
