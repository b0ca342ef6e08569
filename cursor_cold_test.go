package shale

import (
	"fmt"
	"sync"
	"testing"

	"github.com/shaledb/shale/vfs"
)

// A coldFS has files none of whose bytes are in the system's memory. It counts, from the last
// reset on, the blocks that were asked for before the first read that waits, those asked for
// later, and these reads.
type coldFS struct {
	vfs.FS
	mu                   sync.Mutex
	early, late, waiting int
}

type coldFile struct {
	vfs.File
	fs *coldFS
}

func (fs *coldFS) Open(name string) (vfs.File, error) {
	f, err := fs.FS.Open(name)
	if err != nil {
		return nil, err
	}
	return &coldFile{f, fs}, nil
}

func (fs *coldFS) reset() {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	fs.early, fs.late, fs.waiting = 0, 0, 0
}

func (f *coldFile) ReadAt(p []byte, off int64) (int, error) {
	f.fs.mu.Lock()
	f.fs.waiting++
	f.fs.mu.Unlock()
	return f.File.ReadAt(p, off)
}

func (f *coldFile) TryReadAt([]byte, int64) error { return vfs.ErrWouldWait }

func (f *coldFile) WillNeed(int64, int64) {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if f.fs.waiting > 0 {
		f.fs.late++
	} else {
		f.fs.early++
	}
}

// TestIterator_ColdSeekWaitsOnce seeks in a store of several runs whose blocks are in no memory.
// Each seek asks for the blocks of all runs before it waits for the first, in both directions, and
// does not touch the files if the blocks are in the cache.
func TestIterator_ColdSeekWaitsOnce(t *testing.T) {
	const runs, keys = 4, 20_000
	fs := &coldFS{FS: vfs.NewMem()}
	db := openTest(t, &Options{FS: fs, CompactionWorkers: -1, CacheSize: 64 << 20, MemtableSize: 8 << 20})
	for run := range runs {
		for i := run; i < keys; i += runs {
			mustPut(t, db, fmt.Sprintf("key%06d", i), fmt.Sprintf("value %d", i))
		}
		mustFlush(t, db)
	}
	it := db.NewIterator(Range{})
	defer it.Close()
	for i, at := range []int{1000, 17_000, 5000, 12_000} {
		seek, step, way := it.SeekGE, it.Next, 1
		if i%2 == 1 {
			seek, step, way = it.SeekLT, it.Prev, -1
		}
		for again := range 2 {
			fs.reset()
			if !seek(fmt.Appendf(nil, "key%06d", at)) {
				t.Fatal(it.Err())
			}
			want := runs * (1 - again)
			if fs.early != want || fs.late != 0 || fs.waiting != want {
				t.Errorf("seek %d to %d, time %d: %d blocks asked for, %d of them late, in %d reads; want %d before the first read",
					i, at, again, fs.early+fs.late, fs.late, fs.waiting, want)
			}
			from := at + min(way, 0)
			for n := range 20 {
				if want := fmt.Sprintf("key%06d", from+n*way); string(it.Key()) != want {
					t.Fatalf("entry %d: %q, want %q", n, it.Key(), want)
				}
				if !step() {
					t.Fatal(it.Err())
				}
			}
		}
	}
}
