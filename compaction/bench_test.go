package compaction

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"io"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/iter"
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
