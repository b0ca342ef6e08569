package sstable

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/cache"
	"github.com/shaledb/shale/internal/testenv"
)

// A badSector is a file with one byte that can't be read.
type badSector struct {
	*bytes.Reader
	at    int64 // -1: all can be read
	calls int
}

func (f *badSector) ReadAt(p []byte, off int64) (int, error) {
	f.calls++
	if f.at >= off && f.at < off+int64(len(p)) {
		return 0, errDevice
	}
	return f.Reader.ReadAt(p, off)
}

// windowTable opens a table of about 1 MiB with blocks of 4 KiB, through a cache of capacity
// bytes.
func windowTable(t *testing.T, c *Codec, capacity int64) (*Reader, *badSector, []entry) {
	t.Helper()
	rng := rand.New(rand.NewPCG(testenv.Seed(t), 2))
	var list []entry
	for i := range 9000 {
		value := make([]byte, 100)
		for j := range value[:50] {
			value[j] = byte(rng.Uint32())
		}
		list = append(list, entry{base.NewKey(fmt.Appendf(nil, "key%08d", i), 7, base.KindPut), value})
	}
	b, info := writeFile(t, WriterOptions{Codec: c}, list)
	src := &badSector{Reader: bytes.NewReader(b), at: -1}
	r, err := Open(src, ReaderOptions{Num: testNum, StoreID: testStore, Size: info.Size, Cache: cache.New(capacity)})
	if err != nil {
		t.Fatal(err)
	}
	src.calls = 0
	return r, src, list
}

// TestIterator_ReadsAhead counts reads: few for a walk, one for each block for seeks and a
// few steps, and none for what is cached.
func TestIterator_ReadsAhead(t *testing.T) {
	for _, c := range []*Codec{nil, &SnappyCodec} {
		r, src, list := windowTable(t, c, 0)
		blocks := r.index.Load().n
		it := r.NewIterator(nil)
		walk := func(start, step func() *base.KV) {
			t.Helper()
			n := 0
			src.calls = 0
			for kv := start(); kv != nil; kv = step() {
				n++
			}
			// two alone, then 16, 32 and 64 KiB, then 128 KiB each
			most := 2 + 3 + int(r.props.DataBytes>>17) + 2
			if n != len(list) || src.calls > most {
				t.Errorf("%v: %d of %d entries in %d reads of %d blocks, want %d reads", c, n, len(list), src.calls, blocks, most)
			}
		}
		walk(it.First, it.Next)
		walk(it.Last, it.Prev)
		before := r.stats.BlockReads.Load()
		src.calls = 0
		for i := range 50 {
			it.SeekGE(list[i*113].key.UserKey, base.MaxSeq)
			for range 10 {
				it.Next()
			}
		}
		if n := int(r.stats.BlockReads.Load() - before); n != src.calls || n < 40 || n > 100 {
			t.Errorf("%v: seeks and steps took %d reads, of %d blocks", c, src.calls, n)
		}
		if err := it.Close(); err != nil || it.ahead.pooled != nil {
			t.Errorf("Close() = %v, a window is kept: %v", err, it.ahead.pooled != nil)
		}
	}
}

// TestIterator_ReadAheadFillsTheCache checks that after a walk a second one reads nothing.
func TestIterator_ReadAheadFillsTheCache(t *testing.T) {
	for _, c := range []*Codec{nil, &SnappyCodec} {
		r, src, list := windowTable(t, c, 64<<20)
		for round := range 2 {
			src.calls = 0
			if err := scanAll(t, r, list, IterOptions{}); err != nil {
				t.Fatal(err)
			}
			if round == 1 && src.calls > 0 {
				t.Errorf("%v: %d reads of what is cached", c, src.calls)
			}
		}
		if blocks := uint64(r.index.Load().n); r.stats.BlockReads.Load() != blocks || r.stats.CacheMisses.Load() != blocks {
			t.Errorf("%v: %d reads and %d misses of %d blocks", c, r.stats.BlockReads.Load(), r.stats.CacheMisses.Load(), blocks)
		}
	}
}

// TestIterator_ReadAheadErrors checks that a block which can't be read, or is damaged, ends a
// walk when the walk comes to it, and not when reading ahead meets it.
func TestIterator_ReadAheadErrors(t *testing.T) {
	r, src, list := windowTable(t, &SnappyCodec, 0)
	it := r.NewIterator(nil)
	defer it.Close()
	for _, ix := range []int{1, 3, 40, r.index.Load().n / 2, r.index.Load().n - 1} {
		h := r.index.Load().handle(ix)
		src.at = h.offset + int64(h.stored)/2
		first, last := 0, 0 // entries before and behind the block
		for kv := it.First(); kv != nil; kv = it.Next() {
			if first++; !sameEntry(kv, list[first-1]) {
				t.Fatalf("block %d: entry %d is %v", ix, first-1, kv)
			}
		}
		if !errors.Is(it.Err(), errDevice) {
			t.Errorf("block %d, forward: %v", ix, it.Err())
		}
		for kv := it.Last(); kv != nil; kv = it.Prev() {
			if last++; !sameEntry(kv, list[len(list)-last]) {
				t.Fatalf("block %d: entry %d is %v", ix, len(list)-last, kv)
			}
		}
		if !errors.Is(it.Err(), errDevice) {
			t.Errorf("block %d, backward: %v", ix, it.Err())
		}
		src.at = -1
		d := 0
		if it.load(ix) {
			d = it.data.n
		}
		if first+d+last != len(list) {
			t.Errorf("block %d of %d entries: %d before it and %d behind it came, of %d", ix, d, first, last, len(list))
		}
	}
}
