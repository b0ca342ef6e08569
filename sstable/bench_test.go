package sstable

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"github.com/shaledb/shale/bloom"
	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/cache"
	"github.com/shaledb/shale/vfs"
)

// Tables of the benchmarks: 16-byte keys, 100-byte values that halve under
// snappy, sequence numbers as after random writes.
const benchKeys = 200_000

func benchKey(dst []byte, i int) []byte {
	dst = binary.BigEndian.AppendUint64(dst[:0], 0)
	return binary.BigEndian.AppendUint64(dst, uint64(i)*0x9e3779b9)
}

func benchValue(rng *rand.Rand) []byte {
	v := make([]byte, 100)
	for i := 0; i < 48; i++ {
		v[i] = byte(rng.Uint32())
	}
	return v
}

func benchTable(b *testing.B, c *Codec, n int) (*Reader, Info) {
	return benchTableWith(b, WriterOptions{Codec: c}, ReaderOptions{Cache: cache.New(256 << 20)}, n)
}

func benchTableWith(b *testing.B, w WriterOptions, o ReaderOptions, n int) (*Reader, Info) {
	f, err := vfs.NewMem().Create("000007.sst")
	if err != nil {
		b.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	w.Num, w.StoreID, w.FilterBits = 7, 1, 10
	writer := NewWriter(f, w)
	var key []byte
	for i := range n {
		key = benchKey(key, i)
		if err := writer.Add(base.NewKey(key, base.Seq(rng.IntN(5_000_000)), base.KindPut), benchValue(rng)); err != nil {
			b.Fatal(err)
		}
	}
	info, err := writer.Finish()
	if err != nil {
		b.Fatal(err)
	}
	o.Num, o.StoreID, o.Size, o.Checksum = 7, 1, info.Size, info.Checksum
	r, err := Open(f, o)
	if err != nil {
		b.Fatal(err)
	}
	return r, info
}

// BenchmarkGet_Index looks up keys that exist, with the index in memory, in partitions that are
// not, or not in memory at all. With "cached" all blocks are in the cache, with "cold" none ever
// is. It prints the bytes read for a lookup.
func BenchmarkGet_Index(b *testing.B) {
	for _, t := range []struct {
		name string
		w    WriterOptions
		o    ReaderOptions
	}{
		{"resident", WriterOptions{}, ReaderOptions{}},
		{"partitions", WriterOptions{IndexPartition: 4 << 10}, ReaderOptions{}},
		{"whole", WriterOptions{}, ReaderOptions{NoIndex: true}},
	} {
		for _, state := range []string{"cached", "cold"} {
			b.Run(t.name+"/"+state, func(b *testing.B) {
				t.w.Codec, t.o.Stats = &SnappyCodec, new(Stats)
				if t.o.Cache = nil; state == "cached" {
					t.o.Cache = cache.New(256 << 20)
				}
				r, info := benchTableWith(b, t.w, t.o, benchKeys)
				rng := rand.New(rand.NewPCG(1, 2))
				var key []byte
				v := Value{Want: WantCopy, Bytes: make([]byte, 0, 200)}
				lookUp := func(i int) {
					key = benchKey(key, i)
					v.Bytes = v.Bytes[:0]
					if ok, err := r.Get(key, bloom.Hash(key), base.MaxSeq, &v, nil); !ok || err != nil {
						b.Fatal(ok, err)
					}
				}
				if state == "cached" {
					for i := range benchKeys {
						lookUp(i)
					}
				}
				before := t.o.Stats.BlockReadBytes.Load()
				for b.Loop() {
					lookUp(rng.IntN(benchKeys))
				}
				b.ReportMetric(float64(t.o.Stats.BlockReadBytes.Load()-before)/float64(b.N), "read-B/op")
				b.ReportMetric(float64(r.IndexBytes()), "index-B")
				b.ReportMetric(float64(info.Size), "table-B")
			})
		}
	}
}

// BenchmarkBlockFind looks up keys that exist, in 64 blocks that stay in the processor's
// cache.
func BenchmarkBlockFind(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 2))
	const blocks, per = 64, 32
	var views [blocks]dataBlock
	keys := make([][]byte, blocks*per)
	hashes := make([]uint64, len(keys))
	for n := range views {
		var d dataBuilder
		for i := range per {
			k := n*per + i
			keys[k] = benchKey(nil, k)
			hashes[k] = bloom.Hash(keys[k])
			d.add(base.NewKey(keys[k], base.Seq(rng.IntN(5_000_000)), base.KindPut), benchValue(rng), byte(hashes[k]))
		}
		views[n] = viewData(append([]byte(nil), d.finish()...))
	}
	order := rng.Perm(len(keys))
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		k := order[i&(len(keys)-1)]
		i++
		if _, _, found := lookIn(views[k/per].b, keys[k], byte(hashes[k]), base.NewTrailer(base.MaxSeq, base.KindMax)); !found {
			b.Fatal("not found")
		}
	}
}

func BenchmarkBlockSeek(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 2))
	var d dataBuilder
	keys := make([][]byte, 32)
	for i := range keys {
		keys[i] = benchKey(nil, i)
		d.add(base.NewKey(keys[i], 7, base.KindPut), benchValue(rng), 0)
	}
	view := viewData(d.finish())
	order := rng.Perm(1 << 12)
	i := 0
	for b.Loop() {
		k := order[i&(1<<12-1)] & 31
		i++
		if view.seek(keys[k], base.NewTrailer(base.MaxSeq, base.KindMax), 0) != k {
			b.Fatal("not found")
		}
	}
}

func BenchmarkIndexSearch(b *testing.B) {
	r, _ := benchTable(b, &SnappyCodec, benchKeys)
	rng := rand.New(rand.NewPCG(1, 2))
	order := rng.Perm(1 << 16)
	var key []byte
	i, x := 0, r.index.Load()
	for b.Loop() {
		key = benchKey(key, order[i&(1<<16-1)]*3)
		i++
		if x.search(key, base.NewTrailer(base.MaxSeq, base.KindMax)) == x.n {
			b.Fatal("not found")
		}
	}
}

func BenchmarkGetCached(b *testing.B) {
	for _, n := range []int{2_000, benchKeys} {
		b.Run(map[bool]string{true: "all", false: "hot"}[n == benchKeys], func(b *testing.B) {
			r, _ := benchTable(b, &SnappyCodec, benchKeys)
			rng := rand.New(rand.NewPCG(1, 2))
			keys := make([][]byte, 1<<16)
			hashes := make([]uint64, len(keys))
			var v Value
			for i := range keys {
				keys[i] = benchKey(nil, rng.IntN(n))
				hashes[i] = bloom.Hash(keys[i])
				if ok, err := r.Get(keys[i], hashes[i], base.MaxSeq, &v, nil); !ok || err != nil {
					b.Fatal(ok, err)
				}
				v.Release()
			}
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				k := i & (len(keys) - 1)
				i++
				if ok, _ := r.Get(keys[k], hashes[k], base.MaxSeq, &v, nil); !ok {
					b.Fatal("not found")
				}
				v.Release()
			}
		})
	}
}

func BenchmarkGetUncached(b *testing.B) {
	r, _ := benchTable(b, &SnappyCodec, benchKeys)
	r.cache = cache.New(0)
	rng := rand.New(rand.NewPCG(1, 2))
	var key []byte
	var v Value
	b.ReportAllocs()
	for b.Loop() {
		key = benchKey(key, rng.IntN(benchKeys))
		if ok, _ := r.Get(key, bloom.Hash(key), base.MaxSeq, &v, nil); !ok {
			b.Fatal("not found")
		}
		v.Release()
	}
}

// BenchmarkIterate measures the time of a step.
func BenchmarkIterate(b *testing.B) {
	cases := []struct {
		name    string
		keys    int
		opts    IterOptions
		reverse bool
	}{
		{"hot", 4_000, IterOptions{}, false},
		{"hotreverse", 4_000, IterOptions{}, true},
		{"cached", benchKeys, IterOptions{}, false},
		{"reverse", benchKeys, IterOptions{}, true},
		{"readahead", benchKeys, IterOptions{NoFill: true, Readahead: 256 << 10}, false},
	}
	for _, c := range cases {
		b.Run(c.name, func(b *testing.B) {
			r, _ := benchTable(b, &SnappyCodec, c.keys)
			it := r.NewIteratorWith(nil, c.opts)
			defer it.Close()
			start, step := it.First, it.Next
			if c.reverse {
				start, step = it.Last, it.Prev
			}
			for kv := start(); kv != nil; kv = step() {
			}
			b.ReportAllocs()
			var kv *base.KV
			for b.Loop() {
				if kv == nil {
					kv = start()
				} else if c.reverse {
					kv = it.Prev()
				} else {
					kv = it.Next()
				}
			}
		})
	}
}

func BenchmarkSeekGE(b *testing.B) {
	r, _ := benchTable(b, &SnappyCodec, benchKeys)
	rng := rand.New(rand.NewPCG(1, 2))
	it := r.NewIterator(nil)
	defer it.Close()
	for kv := it.First(); kv != nil; kv = it.Next() {
	}
	order := rng.Perm(benchKeys)
	var key []byte
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		key = benchKey(key, order[i%benchKeys])
		i++
		if it.SeekGE(key, base.MaxSeq) == nil {
			b.Fatal("not found")
		}
	}
}

// BenchmarkWriter measures the raw bytes that are written per second.
func BenchmarkWriter(b *testing.B) {
	for _, c := range []*Codec{nil, &SnappyCodec, &ZstdCodec} {
		b.Run(c.String(), func(b *testing.B) {
			rng := rand.New(rand.NewPCG(1, 2))
			values := make([][]byte, 1024)
			for i := range values {
				values[i] = benchValue(rng)
			}
			var key []byte
			b.SetBytes(116)
			b.ReportAllocs()
			w, i := (*Writer)(nil), 0
			for b.Loop() {
				if i%500_000 == 0 {
					if w != nil {
						if _, err := w.Finish(); err != nil {
							b.Fatal(err)
						}
					}
					f := &discard{}
					w = NewWriter(f, WriterOptions{Num: 7, Codec: c, FilterBits: 10})
					i = 0
				}
				key = benchKey(key, i)
				if err := w.Add(base.NewKey(key, base.Seq(1+i*7919%5_000_000), base.KindPut), values[i%len(values)]); err != nil {
					b.Fatal(err)
				}
				i++
			}
		})
	}
}

// A discard is a file that drops what is written to it.
type discard struct{ vfs.File }

func (discard) Write(p []byte) (int, error) { return len(p), nil }
func (discard) Sync() error                 { return nil }

func BenchmarkOpen(b *testing.B) {
	r, info := benchTable(b, &SnappyCodec, benchKeys)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Open(r.src, ReaderOptions{Num: 7, StoreID: 1, Size: info.Size, Cache: r.cache}); err != nil {
			b.Fatal(err)
		}
	}
}
