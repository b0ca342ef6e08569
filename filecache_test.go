package shale

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/shaledb/shale/vfs"
)

// cacheFiles makes n files, each with its number as content, and a cache over
// them that keeps limit open.
func cacheFiles(t *testing.T, n, limit int) (*fileCache, []*tableFile, *vfs.Mem, *vfs.FaultFS) {
	t.Helper()
	mem := vfs.NewMem()
	faults := vfs.NewFault(mem, nil)
	c := newFileCache(faults, limit)
	files := make([]*tableFile, n)
	for i := range files {
		name := fmt.Sprintf("%04d", i)
		f, err := mem.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		_, err = f.Write([]byte(name))
		if err := errors.Join(err, f.Close()); err != nil {
			t.Fatal(err)
		}
		files[i] = c.add(name)
	}
	t.Cleanup(func() {
		c.close()
		wantNoOpenFiles(t, mem)
	})
	return c, files, mem, faults
}

// readNumber checks the content of file i.
func readNumber(t *testing.T, files []*tableFile, i int) {
	t.Helper()
	var p [4]byte
	if _, err := files[i].ReadAt(p[:], 0); err != nil || string(p[:]) != fmt.Sprintf("%04d", i) {
		t.Errorf("file %d: ReadAt = %q, %v", i, p, err)
	}
}

func TestFileCache_Limit(t *testing.T) {
	const limit = 16
	c, files, mem, _ := cacheFiles(t, 100, limit)
	for round := range 3 {
		for i := range files {
			readNumber(t, files, (i*37+round)%len(files))
			if n := mem.OpenFiles(); n > limit || n != c.open || n != len(c.ring) {
				t.Fatalf("%d files are open, limit %d; the cache counts %d, its ring %d", n, limit, c.open, len(c.ring))
			}
		}
	}
}

// A file that is read often stays open while others come and go.
func TestFileCache_KeepsWhatIsUsed(t *testing.T) {
	_, files, _, faults := cacheFiles(t, 200, 16)
	readNumber(t, files, 0)
	for i := 1; i < len(files); i++ {
		before := faults.Count(vfs.OpOpen)
		readNumber(t, files, 0)
		if n := faults.Count(vfs.OpOpen) - before; n != 0 {
			t.Fatalf("file 0 was closed although it is read every other time: before file %d", i)
		}
		readNumber(t, files, i)
	}
}

// A file that is let go of while it is being read is closed by its reader, and
// close waits for that.
func TestFileCache_DroppedWhileBeingRead(t *testing.T) {
	const limit = 16
	c, files, mem, faults := cacheFiles(t, 60, limit)
	entered, resume := make(chan struct{}), make(chan struct{})
	faults.Inject(func(op vfs.Op, name string, n int64) error {
		if op == vfs.OpRead && name == "0000" {
			close(entered)
			<-resume
		}
		return nil
	})
	var wg sync.WaitGroup
	wg.Go(func() { readNumber(t, files, 0) })
	<-entered
	for i := 1; i < len(files); i++ {
		readNumber(t, files, i)
	}
	if files[0].handle.Load() != nil {
		t.Error("file 0 is still in the cache")
	}
	if n := mem.OpenFiles(); n != limit+1 {
		t.Errorf("%d files are open, want %d and the one that is read", n, limit)
	}
	closed := make(chan struct{})
	wg.Go(func() {
		c.close()
		close(closed)
	})
	waitFor(t, "close to begin", func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.closed && c.open == 1
	})
	select {
	case <-closed:
		t.Error("close did not wait for the reader")
	default:
	}
	close(resume)
	wg.Wait()
	if _, err := files[0].ReadAt(make([]byte, 1), 0); !errors.Is(err, ErrClosed) {
		t.Errorf("ReadAt after close: %v, want ErrClosed", err)
	}
}

func TestFileCache_TableGone(t *testing.T) {
	c, files, mem, _ := cacheFiles(t, 3, 16)
	readNumber(t, files, 0)
	for range 2 {
		files[0].close()
		files[1].close() // was never open
	}
	for _, f := range files[:2] {
		if _, err := f.ReadAt(make([]byte, 1), 0); !errors.Is(err, errTableGone) {
			t.Errorf("ReadAt of %s: %v, want errTableGone", f.path, err)
		}
	}
	readNumber(t, files, 2)
	if n := mem.OpenFiles(); n != 1 || c.open != 1 {
		t.Errorf("%d files are open, the cache counts %d; want 1", n, c.open)
	}
}

// A file that can't be opened now can be later.
func TestFileCache_OpenFails(t *testing.T) {
	c, files, _, faults := cacheFiles(t, 40, 16)
	faults.Inject(vfs.FailAt(1, syscall.EMFILE, vfs.OpOpen))
	if _, err := files[0].ReadAt(make([]byte, 1), 0); !errors.Is(err, syscall.EMFILE) {
		t.Errorf("ReadAt: %v, want EMFILE", err)
	}
	for i := range files {
		readNumber(t, files, i)
	}
	if c.open != 16 {
		t.Errorf("%d files are open, want 16", c.open)
	}
}

func TestFileCache_Concurrent(t *testing.T) {
	const limit, readers = 16, 6
	c, files, mem, _ := cacheFiles(t, 80, limit)
	var most atomic.Int64
	var wg sync.WaitGroup
	for g := range readers {
		r := rand.New(rand.NewPCG(1, uint64(g)))
		wg.Go(func() {
			for range 2000 {
				i := r.IntN(len(files))
				if i < 20 && r.IntN(10) == 0 {
					files[i].close()
				}
				var p [4]byte
				_, err := files[i].ReadAt(p[:], 0)
				if i < 20 && errors.Is(err, errTableGone) {
					continue
				}
				if want := fmt.Sprintf("%04d", i); err != nil || string(p[:]) != want {
					t.Errorf("file %d: ReadAt = %q, %v", i, p, err)
				}
				if n := int64(mem.OpenFiles()); n > most.Load() {
					most.Store(n)
				}
			}
		})
	}
	wg.Wait()
	if n := most.Load(); n > limit+readers {
		t.Errorf("%d files were open at once, limit %d and %d readers", n, limit, readers)
	}
	if n := mem.OpenFiles(); n > limit || n != c.open {
		t.Errorf("%d files are open at the end, the cache counts %d", n, c.open)
	}
}

// A store on a real disk with many times as many tables as MaxOpenFiles: readers
// find everything, and the process has no more descriptors than it was allowed.
func TestMaxOpenFiles(t *testing.T) {
	checkLeaks(t)
	opts := small()
	opts.TableSize, opts.MaxOpenFiles, opts.CacheSize, opts.Compression = 4<<10, 16, 8<<10, NoCompression
	before := openDescriptors()
	db, err := Open(filepath.Join(t.TempDir(), "db"), opts)
	if err != nil {
		t.Fatal(err)
	}
	const n, readers = 16000, 4
	fill(t, db, n, 0)
	mustFlush(t, db)
	waitIdle(t, db)
	if tables := len(db.Tables()); tables < 7*opts.MaxOpenFiles {
		t.Errorf("%d tables; the test wants %d", tables, 7*opts.MaxOpenFiles)
	}
	var most atomic.Int64
	var wg sync.WaitGroup
	for g := range readers {
		wg.Go(func() {
			for i := g; i < n; i += 3 * readers {
				key := fmt.Sprintf("key%06d", i)
				if v, err := db.Get([]byte(key)); err != nil || string(v) != fmt.Sprintf("value %d of round 0", i) {
					t.Errorf("Get(%q) = %q, %v", key, v, err)
				}
				if i%40 == 0 {
					most.Store(max(most.Load(), int64(openDescriptors())))
				}
			}
		})
	}
	wg.Go(func() {
		for _, err := range db.Scan(Range{}) {
			if err != nil {
				t.Error(err)
			}
		}
	})
	wg.Wait()
	// The tables; one a reader on its way out; log, manifest and lock; the
	// directory that openDescriptors reads, once a reader.
	if allowed := int64(before + opts.MaxOpenFiles + 2*readers + 8); most.Load() > allowed {
		t.Errorf("%d descriptors were open, %d before the store; want %d at most", most.Load(), before, allowed)
	}
	if err := db.Close(); err != nil {
		t.Error(err)
	}
}
