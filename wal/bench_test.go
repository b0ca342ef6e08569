package wal

import (
	"fmt"
	"testing"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/vfs"
)

// benchWriter returns a log on the real file system.
func benchWriter(b *testing.B, o Options, recycled bool) *Writer {
	b.Helper()
	o.FS, o.Dir = vfs.Default, b.TempDir()
	if recycled {
		w := mustCreate(b, Header{Num: 1, StoreID: testStore}, o)
		page := make([]byte, 32<<10)
		for w.Len() < o.Prealloc-64<<10 {
			if _, err := w.Append(page, 1); err != nil {
				b.Fatal(err)
			}
		}
		mustSync(b, w)
		mustClose(b, w)
		o.Recycle = 1
	}
	w := mustCreate(b, Header{Num: 2, StoreID: testStore}, o)
	b.Cleanup(func() { mustClose(b, w) })
	return w
}

// rewind makes the log empty, so that a benchmark can go on in the same pages for any time.
func (w *Writer) rewind() {
	w.off = headerSize
	w.length.Store(headerSize)
	w.synced.Store(headerSize)
}

func BenchmarkAppend(b *testing.B) {
	for _, bb := range []struct {
		name string
		size int
		o    Options
	}{
		{"mapped/140", 140, Options{Prealloc: 8 << 20}},
		{"mapped/1000", 1000, Options{Prealloc: 8 << 20}},
		{"unmapped/140", 140, Options{Prealloc: 8 << 20, NoMap: true}},
		{"growing/140", 140, Options{}},
	} {
		b.Run(bb.name, func(b *testing.B) {
			w := benchWriter(b, bb.o, false)
			payload := make([]byte, bb.size)
			b.ReportAllocs()
			b.SetBytes(int64(bb.size))
			for b.Loop() {
				if _, err := w.Append(payload, 1); err != nil {
					b.Fatal(err)
				}
				if w.off > 7<<20 {
					w.rewind()
				}
			}
		})
	}
}

func BenchmarkAppendBatch(b *testing.B) {
	w := benchWriter(b, Options{Prealloc: 8 << 20, NoMap: true}, false)
	group := make([][]byte, 16)
	for i := range group {
		group[i] = make([]byte, 140)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := w.AppendBatch(group, 1, false); err != nil {
			b.Fatal(err)
		}
		if w.off > 7<<20 {
			w.rewind()
		}
	}
}

func BenchmarkSync(b *testing.B) {
	for _, bb := range []struct {
		name     string
		o        Options
		recycled bool
	}{
		{"growing", Options{}, false},
		{"preallocated", Options{Prealloc: 8 << 20}, false},
		{"preallocated-unmapped", Options{Prealloc: 8 << 20, NoMap: true}, false},
		{"recycled", Options{Prealloc: 8 << 20}, true},
		{"recycled-unmapped", Options{Prealloc: 8 << 20, NoMap: true}, true},
	} {
		b.Run(bb.name, func(b *testing.B) {
			w := benchWriter(b, bb.o, bb.recycled)
			payload := make([]byte, 140)
			for b.Loop() {
				if _, err := w.Append(payload, 1); err != nil {
					b.Fatal(err)
				}
				mustSync(b, w)
			}
		})
	}
}

// BenchmarkRead measures the recovery of a log of 8 MiB. One is full of records. The other
// has only remains of an earlier log, which must be searched.
func BenchmarkRead(b *testing.B) {
	for _, records := range []int{40000, 0} {
		b.Run(fmt.Sprintf("records=%d", records), func(b *testing.B) {
			fs := vfs.NewMem()
			o := Options{FS: fs, Prealloc: 8 << 20}
			w := mustCreate(b, Header{Num: 6, StoreID: testStore}, o)
			for i := range 40000 {
				mustAppend(b, w, testPayload(i, 170), base.Seq(i))
			}
			mustClose(b, w)
			o.Recycle = 6
			w = mustCreate(b, Header{Num: 7, StoreID: testStore}, o)
			for i := range records {
				mustAppend(b, w, testPayload(i, 170), base.Seq(i))
			}
			mustClose(b, w)
			b.SetBytes(8 << 20)
			b.ReportAllocs()
			for b.Loop() {
				if got, _, err := readCount(fs); err != nil || got != records {
					b.Fatal(got, err)
				}
			}
		})
	}
}

func readCount(fs vfs.FS) (n int, res Result, err error) {
	res, err = Read(fs, "", 7, testStore, ReadOptions{Known: -1}, func([]byte) error { n++; return nil })
	return n, res, err
}
