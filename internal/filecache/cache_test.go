package filecache

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/vfs"
	"github.com/shaledb/shale/vfs/faultfs"
)

// cacheFiles creates n files, each with its number as
// content, and a cache over them that keeps limit files open.
func cacheFiles(t *testing.T, n, limit int) (*Cache, []*File, *vfs.Mem, *faultfs.FS) {
	t.Helper()
	mem := vfs.NewMem()
	faults := faultfs.New(mem, nil)
	c := New(faults, limit)
	files := make([]*File, n)
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
		files[i] = c.Add(name)
	}
	t.Cleanup(func() {
		c.Close()
		if n := mem.OpenFiles(); n != 0 {
			t.Errorf("%d files are still open", n)
		}
	})
	return c, files, mem, faults
}

// readNumber checks the content of file i.
func readNumber(t *testing.T, files []*File, i int) {
	t.Helper()
	var p [4]byte
	if _, err := files[i].ReadAt(p[:], 0); err != nil || string(p[:]) != fmt.Sprintf("%04d", i) {
		t.Errorf("file %d: ReadAt = %q, %v", i, p, err)
	}
}

func TestCache_Limit(t *testing.T) {
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
func TestCache_KeepsWhatIsUsed(t *testing.T) {
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

// If a file is dropped from the cache while it is being
// read, its reader closes it, and Close waits for that.
func TestCache_DroppedWhileBeingRead(t *testing.T) {
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
		c.Close()
		close(closed)
	})
	testenv.WaitFor(t, "close to begin", func() bool {
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
	if _, err := files[0].ReadAt(make([]byte, 1), 0); !errors.Is(err, base.ErrClosed) {
		t.Errorf("ReadAt after close: %v, want base.ErrClosed", err)
	}
}

func TestCache_Concurrent(t *testing.T) {
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
					files[i].Close()
				}
				var p [4]byte
				_, err := files[i].ReadAt(p[:], 0)
				if i < 20 && errors.Is(err, ErrGone) {
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
