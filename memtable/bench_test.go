package memtable

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/shaledb/shale/internal/base"
)

const benchEntries = 500_000

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

// BenchmarkAdd fills memtables with 500,000 entries. ns/op is the time of one entry in a
// group of its own.
func BenchmarkAdd(b *testing.B) {
	value := make([]byte, 16)
	for _, shape := range benchKeys {
		b.Run(shape.name, func(b *testing.B) {
			keys := makeKeys(shape.key, benchEntries)
			b.ReportAllocs()
			var m *Memtable
			i := benchEntries
			for b.Loop() {
				if i == benchEntries {
					m, i = New(Options{Size: 64 << 20}), 0
				}
				m.BeginWrite()
				m.Add(base.Seq(i+1), base.KindPut, keys[i], value)
				m.EndWrite()
				i++
			}
		})
	}
}

func BenchmarkGet(b *testing.B) {
	value := make([]byte, 16)
	for _, shape := range benchKeys {
		keys := makeKeys(shape.key, benchEntries)
		m := New(Options{Size: 64 << 20})
		fill(m, keys, value)
		get := func(b *testing.B) {
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				i = (i + 7919) % benchEntries
				if _, _, found, _ := m.Get(keys[i], base.MaxSeq); !found {
					b.Fatal("not found")
				}
			}
		}
		b.Run(shape.name+"/growing", get)
		m.Freeze()
		b.Run(shape.name+"/frozen", get)
		m.Pack()
		b.Run(shape.name+"/packed", get)
	}
}

func BenchmarkMiss(b *testing.B) {
	keys := makeKeys(benchKeys[0].key, benchEntries)
	m := New(Options{Size: 64 << 20})
	fill(m, keys, nil)
	r := rand.New(rand.NewPCG(3, 4))
	absent := make([]uint64, 1<<16)
	for i := range absent {
		absent[i] = r.Uint64()
	}
	i, maybe := 0, 0
	b.ReportAllocs()
	for b.Loop() {
		i = (i + 1) & (len(absent) - 1)
		if m.MayContainHash(absent[i]) {
			maybe++
		}
	}
	b.ReportMetric(float64(maybe)/float64(b.N), "fpr")
}

func BenchmarkIterator(b *testing.B) {
	keys := makeKeys(benchKeys[0].key, benchEntries)
	m := New(Options{Size: 64 << 20})
	fill(m, keys, make([]byte, 16))
	b.Run("next", func(b *testing.B) {
		it := m.NewIterator()
		b.ReportAllocs()
		for b.Loop() {
			if it.Next() == nil {
				it.First()
			}
		}
	})
	b.Run("prev", func(b *testing.B) {
		it := m.NewIterator()
		b.ReportAllocs()
		for b.Loop() {
			if it.Prev() == nil {
				it.Last()
			}
		}
	})
	b.Run("seek", func(b *testing.B) {
		it := m.NewIterator()
		b.ReportAllocs()
		i := 0
		for b.Loop() {
			i = (i + 7919) % benchEntries
			it.SeekGE(keys[i], base.MaxSeq)
		}
	})
	b.Run("new+seek+10", func(b *testing.B) {
		b.ReportAllocs()
		i := 0
		for b.Loop() {
			i = (i + 7919) % benchEntries
			it := m.NewIterator()
			it.SeekGE(keys[i], base.MaxSeq)
			for range 10 {
				it.Next()
			}
			it.Close()
		}
	})
}
