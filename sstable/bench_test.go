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

// A discard is a file that drops what is written to it.
type discard struct{ vfs.File }

func (discard) Write(p []byte) (int, error) { return len(p), nil }
func (discard) Sync() error                 { return nil }
