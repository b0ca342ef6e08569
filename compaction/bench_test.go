package compaction

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/iter"
	"github.com/shaledb/shale/memtable"
	"github.com/shaledb/shale/sstable"
	"github.com/shaledb/shale/vfs"
)

// A benchFile keeps the bytes that are written to it, or only counts
// them. It takes almost no time, so that a benchmark measures the merge.
type benchFile struct {
	vfs.File
	b             []byte
	keep          bool
	written, read int64
	writes        int
}

func (f *benchFile) Write(p []byte) (int, error) {
	f.writes++
	f.written += int64(len(p))
	if f.keep {
		f.b = append(f.b, p...)
	}
	return len(p), nil
}
func (f *benchFile) Sync() error { return nil }

func (f *benchFile) ReadAt(p []byte, off int64) (int, error) {
	if off >= int64(len(f.b)) {
		return 0, io.EOF
	}
	n := copy(p, f.b[off:])
	f.read += int64(n)
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

type benchOutput struct{ *sstable.Writer }

func (o benchOutput) Finish() error {
	_, err := o.Writer.Finish()
	return err
}
func (o benchOutput) Abandon() {}

func benchWriter(f vfs.File, num base.FileNum) *sstable.Writer {
	return sstable.NewWriter(f, sstable.WriterOptions{Num: num, StoreID: 1, Codec: &sstable.SnappyCodec, FilterBits: 10})
}

// benchKey is a hashed key in hexadecimal, as those of the store's benchmarks.
func benchKey(i uint64) []byte {
	i ^= i >> 30
	i *= 0xbf58476d1ce4e5b9
	i ^= i >> 27
	i *= 0x94d049bb133111eb
	i ^= i >> 31
	return hex.AppendEncode(nil, binary.BigEndian.AppendUint64(nil, i))
}

// benchTable writes the entries with the numbers [from, to), sorted: keys are
// drawn from the first keys.
func benchTable(tb testing.TB, num base.FileNum, from, to, keys int) (*sstable.Reader, *benchFile) {
	rng := rand.New(rand.NewPCG(uint64(num), 1))
	entries := make([]base.InternalKey, 0, to-from)
	for i := from; i < to; i++ {
		k := uint64(i)
		if keys > 0 {
			k = rng.Uint64N(uint64(keys))
		}
		entries = append(entries, base.NewKey(benchKey(k), base.Seq(i+1), base.KindPut))
	}
	slices.SortFunc(entries, base.Compare)
	f := &benchFile{keep: true}
	w := benchWriter(f, num)
	value := make([]byte, 100)
	for _, e := range entries {
		for j := 0; j < 48; j += 8 {
			binary.LittleEndian.PutUint64(value[j:], rng.Uint64())
		}
		if err := w.Add(e, value); err != nil {
			tb.Fatal(err)
		}
	}
	info, err := w.Finish()
	if err != nil {
		tb.Fatal(err)
	}
	r, err := sstable.Open(f, sstable.ReaderOptions{Num: num, StoreID: 1, Size: info.Size, Checksum: info.Checksum})
	if err != nil {
		tb.Fatal(err)
	}
	f.read = 0
	return r, f
}

type tableOf struct{ r *sstable.Reader }

func (s tableOf) Bounds(int) (smallest, largest []byte) {
	p := s.r.Props()
	return p.Smallest, p.Largest
}
func (s tableOf) Open(int) (base.Iterator, error) {
	return s.r.NewIteratorWith(nil, sstable.IterOptions{NoFill: true, Readahead: 256 << 10}), nil
}

// mergeOnce merges tables as a compaction does.
func mergeOnce(tb testing.TB, tables []*sstable.Reader) (MergeResult, *benchFile) {
	var iters []base.Iterator
	for _, r := range slices.Backward(tables) {
		iters = append(iters, iter.NewConcat(1, tableOf{r}))
	}
	src := iter.NewMerging(iters...)
	out, num := &benchFile{}, base.FileNum(1000)
	got, err := Merge(context.Background(), src, MergeOptions{TableSize: 16 << 20, NewOutput: func() (Output, error) {
		num++
		return benchOutput{benchWriter(out, num)}, nil
	}})
	if err == nil {
		err = src.Close()
	}
	if err != nil {
		tb.Fatal(err)
	}
	return got, out
}

// BenchmarkCompact measures a compaction without its files. ns and
// MB/s are for each entry read, with its key and value uncompressed.
func BenchmarkCompact(b *testing.B) {
	const each = 100_000
	for _, n := range []int{1, 4, 10} {
		for _, kind := range []string{"new", "overwrites"} {
			b.Run(fmt.Sprintf("%s/%d", kind, n), func(b *testing.B) {
				var tables []*sstable.Reader
				for i := range n {
					keys := 0
					if kind == "overwrites" {
						keys = 2 * each
					}
					r, _ := benchTable(b, base.FileNum(i+1), i*each, (i+1)*each, keys)
					tables = append(tables, r)
				}
				b.ReportAllocs()
				b.SetBytes(int64(n * each * 116))
				for b.Loop() {
					mergeOnce(b, tables)
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n*each), "ns/entry")
			})
		}
	}
}

// BenchmarkFlush measures the flush of a memtable without its file.
func BenchmarkFlush(b *testing.B) {
	const n = 400_000
	m := benchMemtable(b, n)
	b.ReportAllocs()
	b.SetBytes(n * 116)
	for b.Loop() {
		src := m.NewIterator()
		out := &benchFile{}
		_, err := Merge(context.Background(), src, MergeOptions{NewOutput: func() (Output, error) {
			return benchOutput{benchWriter(out, 7)}, nil
		}})
		if err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/entry")
}

func benchMemtable(tb testing.TB, n int) *memtable.Memtable {
	m := memtable.New(memtable.Options{})
	rng := rand.New(rand.NewPCG(1, 1))
	value := make([]byte, 100)
	m.BeginWrite()
	for i := range n {
		for j := 0; j < 48; j += 8 {
			binary.LittleEndian.PutUint64(value[j:], rng.Uint64())
		}
		key := benchKey(uint64(i))
		m.Add(base.Seq(i+1), base.KindPut, key, value)
	}
	m.EndWrite()
	m.Freeze()
	return m
}
