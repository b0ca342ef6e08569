package sstable

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/shaledb/shale/bloom"
	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/cache"
)

// goldenFiles are the seeds of fuzzing.
func goldenFiles(f *testing.F) [][]byte {
	paths, err := filepath.Glob(filepath.Join("testdata", "*.sst"))
	if err != nil || len(paths) == 0 {
		f.Fatal("no golden tables", err)
	}
	var files [][]byte
	for _, p := range paths {
		b, err := os.ReadFile(p)
		if err != nil {
			f.Fatal(err)
		}
		files = append(files, b)
	}
	return files
}

// goldenBlocks calls fn with the payloads of a kind in the golden tables.
func goldenBlocks(f *testing.F, kind BlockKind, fn func(payload []byte)) {
	for _, b := range goldenFiles(f) {
		r, err := openFile(b, Info{Size: int64(len(b))})
		if err != nil {
			f.Fatal(err)
		}
		switch kind {
		case BlockIndex:
			if payload, err := r.readMeta(tail{}, r.foot.index, BlockIndex); err == nil {
				fn(payload)
			}
		case BlockProperties:
			if payload, err := r.readMeta(tail{}, r.foot.props, BlockProperties); err == nil {
				fn(payload)
			}
		case BlockData:
			err := r.eachLeaf(func(x *index) error {
				if x.n == 0 {
					return nil
				}
				block, err := r.readBlock(x.handle(0), BlockData, nil)
				if err == nil {
					fn(bytes.Clone(block.Bytes()[:x.handle(0).raw]))
					block.Release()
				}
				return err
			})
			if err != nil {
				f.Fatal(err)
			}
		}
	}
}

// FuzzDataBlock: a payload that is accepted can be searched and walked.
func FuzzDataBlock(f *testing.F) {
	goldenBlocks(f, BlockData, func(b []byte) { f.Add(b, []byte("key010")) })
	f.Fuzz(func(t *testing.T, b, key []byte) {
		if checkData(b) != nil {
			return
		}
		d := viewData(b)
		total := 0
		for i := range d.n {
			suffix, value := d.entry(i)
			total += len(suffix) + len(value)
			if trailer := d.trailer(i); trailer.Kind() > base.KindPut {
				t.Fatalf("entry %d has kind %v", i, trailer.Kind())
			}
			full := append(bytes.Clone(d.prefix), suffix...)
			d.find(full, d.b[dataHeader+i], math.MaxUint64)
			d.seek(full, 0, 0)
		}
		if total > len(b) {
			t.Fatalf("entries have %d bytes, the block %d", total, len(b))
		}
		d.find(key, byte(bloom.Hash(key)), math.MaxUint64)
		if i := d.seek(key, math.MaxUint64, 0); i < 0 || i > d.n {
			t.Fatalf("seek = %d of %d", i, d.n)
		}
	})
}

// FuzzIndex: an index that is accepted can be searched, and its handles lie in
// bounds.
func FuzzIndex(f *testing.F) {
	goldenBlocks(f, BlockIndex, func(b []byte) { f.Add(b, []byte("user000300")) })
	f.Fuzz(func(t *testing.T, b, key []byte) {
		const end = 1 << 20
		if checkIndex(b, end) != nil {
			return
		}
		x := viewIndex(b)
		for i := range x.n {
			h := x.handle(i)
			if h.offset < 0 || h.stored <= 0 || h.offset+int64(h.stored)+blockTail > end || h.raw > h.stored*maxRatio {
				t.Fatalf("handle %d = %+v", i, h)
			}
			if sep := x.separator(i); x.search(sep.UserKey, sep.Trailer) != i {
				t.Fatalf("search(%v) = %d, want %d", sep, x.search(sep.UserKey, sep.Trailer), i)
			}
		}
		if i := x.search(key, 0); i < 0 || i > x.n {
			t.Fatalf("search = %d of %d", i, x.n)
		}
	})
}

// FuzzProperties: what is accepted comes back the same from its encoding.
func FuzzProperties(f *testing.F) {
	goldenBlocks(f, BlockProperties, func(b []byte) { f.Add(b) })
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := decodeProperties(b)
		if err != nil {
			return
		}
		again := p.appendTo(nil)
		q, err := decodeProperties(again)
		if err != nil || !bytes.Equal(q.appendTo(nil), again) {
			t.Fatalf("%+v comes back as %+v, %v", p, q, err)
		}
	})
}

// FuzzFooter: what is accepted encodes to the same bytes.
func FuzzFooter(f *testing.F) {
	for _, b := range goldenFiles(f) {
		f.Add(b[len(b)-footerSize:], int64(len(b)))
	}
	f.Fuzz(func(t *testing.T, b []byte, size int64) {
		if size < int64(len(b)) {
			return
		}
		foot, err := decodeFooter(b, size)
		if err != nil {
			return
		}
		if again := foot.appendTo(nil); !bytes.Equal(again, b[len(b)-footerSize:]) {
			t.Fatalf("footer %x comes back as %x", b, again)
		}
	})
}

// FuzzTable opens, scans and asks any bytes. Checksums are made to fit with
// fix, so that the decoders behind them are met.
func FuzzTable(f *testing.F) {
	for _, b := range goldenFiles(f) {
		f.Add(b, false)
		f.Add(b, true)
	}
	f.Fuzz(func(t *testing.T, b []byte, fix bool) {
		if fix {
			b = fixChecksums(bytes.Clone(b))
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		useTable(t, b)
		runtime.ReadMemStats(&after)
		// Each block may grow by maxRatio once in each of the passes; pooled
		// coders of zstd are the constant.
		if got, most := after.TotalAlloc-before.TotalAlloc, uint64(32<<20+len(b)*maxRatio*8); got > most {
			t.Fatalf("%d bytes allocated for a file of %d", got, len(b))
		}
	})
}

// useTable asks a file everything. Every error has to be one of damage or of
// the future.
func useTable(t *testing.T, b []byte) {
	check := func(err error) {
		var c *base.CorruptionError
		if err != nil && !errors.As(err, &c) && !errors.Is(err, base.ErrFormatTooNew) {
			t.Fatalf("%v is neither damage nor the future", err)
		}
	}
	r, err := Open(sized{bytes.NewReader(b)}, ReaderOptions{Cache: cache.New(1 << 20)})
	check(err)
	if err != nil {
		return
	}
	check(r.FilterErr())
	check(r.Verify(context.Background()))
	it := r.NewIterator(nil)
	defer it.Close()
	n := 0
	for kv := it.First(); kv != nil && n < 1000; kv = it.Next() {
		if n++; n%7 == 0 {
			_, _, _, err := get(r, bytes.Clone(kv.UserKey), kv.Seq())
			check(err)
		}
	}
	check(it.Err())
	for kv := it.Last(); kv != nil && n > 0; kv = it.Prev() {
		n--
	}
	check(it.Err())
	for _, key := range []string{"", "key010", "user000300", "zz"} {
		it.SeekGE([]byte(key), base.MaxSeq)
		check(it.Err())
		it.SeekLT([]byte(key))
		check(it.Err())
	}
}

// fixChecksums gives the footer, and each block that it and the index name,
// the checksum that fits.
func fixChecksums(b []byte) []byte {
	if len(b) < footerSize {
		return b
	}
	foot := b[len(b)-footerSize:]
	binary.LittleEndian.PutUint32(foot[footerChecksum:], footerCRC(foot))
	ft, err := decodeFooter(b, int64(len(b)))
	if err != nil {
		return b
	}
	seed := checksumSeed(ft.storeID, ft.num)
	fix := func(h handle, kind BlockKind) {
		at := int(h.offset)
		appendBlockTail(b[:at+h.stored], at, Compression(b[at+h.stored]), seed, kind, h.offset)
	}
	fix(ft.props, BlockProperties)
	fix(ft.index, BlockIndex)
	if ft.filter.stored > 0 {
		fix(ft.filter, BlockFilter)
	}
	r, err := Open(sized{bytes.NewReader(b)}, ReaderOptions{})
	if err != nil {
		return b
	}
	kind := BlockData
	if ft.levels == 2 {
		kind = BlockIndexPartition
	}
	for i := range r.index.n {
		fix(r.index.handle(i), kind)
	}
	if ft.levels == 2 {
		_ = r.eachLeaf(func(x *index) error { // damaged partitions stay damaged
			for i := range x.n {
				fix(x.handle(i), BlockData)
			}
			return nil
		})
	}
	return b
}
