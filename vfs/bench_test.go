package vfs

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"
)

// store makes a file system like that of a small store: tables of 64 KB, and
// a log with unsynced writes.
func store(b *testing.B, size int) *Mem {
	m := NewMem()
	for i := range size / (64 << 10) {
		f, _ := m.Create(fmt.Sprintf("%06d.sst", i))
		f.Write(make([]byte, 64<<10))
		f.Sync()
		f.Close()
	}
	m.SyncDir(".")
	log, err := m.Create("000100.wal")
	if err != nil {
		b.Fatal(err)
	}
	for range 100 {
		log.Write(make([]byte, 100))
	}
	return m
}

// A crash takes the same time for stores of all sizes, except for the number of files.
func BenchmarkMem_Crash(b *testing.B) {
	for _, size := range []int{128 << 10, 1 << 20} {
		for _, c := range []CrashConfig{{DropAll, NamesDrop, false, 1}, {Sectors, NamesSubset, false, 1}} {
			b.Run(fmt.Sprintf("%dKB/%v", size>>10, c.Policy), func(b *testing.B) {
				m := store(b, size)
				b.ReportAllocs()
				for b.Loop() {
					m.Crash(c)
				}
			})
		}
	}
}

func BenchmarkMem_ReadAt(b *testing.B) {
	m := NewMem()
	f, _ := m.Create("a")
	f.Write(make([]byte, 8<<20))
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		buf := make([]byte, 4096)
		for pb.Next() {
			f.ReadAt(buf, rand.Int64N(8<<20-4096))
		}
	})
}

// BenchmarkAppend writes a record of a log, with a call and through a mapping.
func BenchmarkAppend(b *testing.B) {
	const size = 32 << 20
	record := make([]byte, 140)
	for i := range record {
		record[i] = byte(i)
	}
	for _, s := range []struct {
		name string
		fs   FS
	}{{"OS", Default}, {"Mem", NewMem()}} {
		f, err := s.fs.Create(filepath.Join(dirFor(b, s.fs), "log"))
		if err != nil {
			b.Fatal(err)
		}
		f.Preallocate(size)
		b.Run(s.name+"/WriteAt", func(b *testing.B) {
			b.ReportAllocs()
			appendTo(b, f, f.WriteAt, record, size)
		})
		m, err := f.(Mapper).Map(size)
		if err != nil {
			b.Skip(err)
		}
		b.Run(s.name+"/Mapping", func(b *testing.B) {
			b.ReportAllocs()
			appendTo(b, f, m.WriteAt, record, size)
		})
		m.Unmap()
		f.Close()
	}
}

func dirFor(b *testing.B, fs FS) string {
	if fs == Default {
		return b.TempDir()
	}
	return "/"
}

func appendTo(b *testing.B, f File, write func([]byte, int64) (int, error), p []byte, size int64) {
	var off int64
	for b.Loop() {
		if _, err := write(p, off); err != nil {
			b.Fatal(err)
		}
		if off += int64(len(p)); off+int64(len(p)) > size {
			off = 0
			f.Sync()
		}
	}
}
