package filecache

import (
	"errors"
	"io/fs"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/vfs"
	"github.com/shaledb/shale/vfs/faultfs"
)

// A blockedOpen makes the opening of file 0 wait until resume is called.
type blockedOpen struct {
	entered chan struct{} // closed when the file is being opened
	resume  func()
}

// blockOpen blocks the first opening of file 0. When it goes on, it fails with err, if err is
// not nil.
func blockOpen(faults *faultfs.FS, err error) blockedOpen {
	entered, resume := make(chan struct{}), make(chan struct{})
	var once sync.Once
	faults.Inject(func(op vfs.Op, name string, _ int64) (failure error) {
		if op == vfs.OpOpen && name == "0000" {
			once.Do(func() {
				close(entered)
				<-resume
				failure = err
			})
		}
		return failure
	})
	return blockedOpen{entered, func() { close(resume) }}
}

// opening returns how many files are being opened, as the cache counts them.
func opening(c *Cache) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.opening
}

// While a file is being opened, other files can be opened and closed. Readers of the same file
// wait, and it is opened once.
func TestCache_OpensOutsideOfItsLock(t *testing.T) {
	c, files, mem, faults := cacheFiles(t, 60, 16)
	blocked := blockOpen(faults, nil)
	before := faults.Count(vfs.OpOpen)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() { readNumber(t, files, 0) })
	}
	<-blocked.entered
	others := make(chan struct{})
	wg.Go(func() {
		defer close(others)
		for i := 1; i < len(files); i++ {
			readNumber(t, files, i)
			if n := mem.OpenFiles(); n > 16 {
				t.Errorf("%d files are open while one more is being opened", n)
			}
		}
		files[59].Close()
		if n := opening(c); n != 1 {
			t.Errorf("%d files are being opened, want 1", n)
		}
	})
	select {
	case <-others:
	case <-time.After(20 * time.Second):
		t.Error("reads of other files wait until the file is open")
	}
	blocked.resume()
	wg.Wait()
	if n := faults.Count(vfs.OpOpen) - before; n != 60 {
		t.Errorf("60 files were opened %d times", n)
	}
}

// A file or a cache that is closed while the file is being opened leaves no file open, and no
// reader gets one. Readers learn what was closed, even if the file can't be opened any more:
// a file that is gone is removed at once.
func TestCache_ClosedWhileAFileIsOpened(t *testing.T) {
	closeFile := func(_ *Cache, f *File) { f.Close() }
	closeCache := func(c *Cache, _ *File) { c.Close() }
	for _, tt := range []struct {
		name    string
		close   func(c *Cache, f *File)
		opening error // the result of opening the file
		want    error
	}{
		{"file", closeFile, nil, ErrGone},
		{"file removed", closeFile, fs.ErrNotExist, ErrGone},
		{"cache", closeCache, nil, base.ErrClosed},
		{"cache and store removed", closeCache, fs.ErrNotExist, base.ErrClosed},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, files, mem, faults := cacheFiles(t, 3, 16)
			blocked := blockOpen(faults, tt.opening)
			var wg sync.WaitGroup
			for range 3 {
				wg.Go(func() {
					if _, err := files[0].ReadAt(make([]byte, 4), 0); !errors.Is(err, tt.want) {
						t.Errorf("ReadAt = %v, want %v", err, tt.want)
					}
				})
			}
			<-blocked.entered
			wg.Go(func() { tt.close(c, files[0]) })
			testenv.WaitFor(t, "close to begin", func() bool {
				c.mu.Lock()
				defer c.mu.Unlock()
				return c.closed || files[0].gone.Load()
			})
			blocked.resume()
			wg.Wait()
			if n := mem.OpenFiles(); n != 0 || c.open != 0 {
				t.Errorf("%d files are open, and the cache counts %d", n, c.open)
			}
		})
		if t.Failed() {
			return // Close of the cache would wait for a file that stays open
		}
	}
}

// All readers that wait for an attempt get its error. The next reader tries again.
func TestCache_AttemptFails(t *testing.T) {
	c, files, _, faults := cacheFiles(t, 2, 16)
	blocked := blockOpen(faults, syscall.EMFILE)
	var wg sync.WaitGroup
	wg.Go(func() {
		if _, err := files[0].ReadAt(make([]byte, 4), 0); !errors.Is(err, syscall.EMFILE) {
			t.Errorf("ReadAt by the reader that opens = %v", err)
		}
	})
	<-blocked.entered
	_, other, err := c.begin(files[0])
	if other == nil || err != nil {
		t.Fatalf("a second reader found no attempt to wait for: %v", err)
	}
	blocked.resume()
	<-other.done
	if !errors.Is(other.err, syscall.EMFILE) {
		t.Errorf("a reader that waited got %v", other.err)
	}
	wg.Wait()
	readNumber(t, files, 0)
	if c.open != 1 || opening(c) != 0 {
		t.Errorf("the cache counts %d open files and %d attempts", c.open, opening(c))
	}
}

// If the file system panics, the panic goes to the reader that opens the file. Nobody waits for
// the attempt any more, and the next reader tries again.
func TestCache_FileSystemPanics(t *testing.T) {
	c, files, _, faults := cacheFiles(t, 2, 16)
	faults.Inject(func(op vfs.Op, _ string, _ int64) error {
		if op == vfs.OpOpen {
			panic("a bad file system")
		}
		return nil
	})
	func() {
		defer func() {
			if recover() == nil {
				t.Error("ReadAt did not panic")
			}
		}()
		_, _ = files[0].ReadAt(make([]byte, 4), 0)
	}()
	faults.Inject(nil)
	readNumber(t, files, 0)
	if c.open != 1 || opening(c) != 0 {
		t.Errorf("the cache counts %d open files and %d attempts", c.open, opening(c))
	}
}

// The same if the file system panics while it closes another file, to make room for the one that is opened.
func TestCache_FileSystemPanicsInClose(t *testing.T) {
	_, _, mem, faults := cacheFiles(t, 2, 16)
	c := New(faults, 1)
	files := []*File{c.Add("0000"), c.Add("0001")}
	readNumber(t, files, 0)
	faults.Inject(func(op vfs.Op, _ string, _ int64) error {
		if op == vfs.OpClose {
			panic("a bad file system")
		}
		return nil
	})
	lost := files[0].handle.Load().file // the file system does not close it
	var panicked *base.PanicError
	if err := base.Survive(func() error {
		_, err := files[1].ReadAt(make([]byte, 4), 0)
		return err
	}); !errors.As(err, &panicked) {
		t.Errorf("ReadAt = %v, want a panic", err)
	}
	faults.Inject(nil)
	if c.open != 0 || opening(c) != 0 {
		t.Fatalf("the cache counts %d open files and %d attempts", c.open, opening(c))
	}
	readNumber(t, files, 1)
	readNumber(t, files, 0)
	c.Close()
	if err := lost.Close(); err != nil || mem.OpenFiles() != 0 {
		t.Errorf("Close = %v, and %d files are open", err, mem.OpenFiles())
	}
}

// swap puts another file in the place of file 0, as if it lay elsewhere from now on.
func swap(t *testing.T, mem *vfs.Mem) {
	t.Helper()
	f, err := mem.Create("new")
	if err == nil {
		_, err = f.Write([]byte("else"))
	}
	if err := errors.Join(err, f.Close(), mem.Rename("new", "0000")); err != nil {
		t.Fatal(err)
	}
}

// readString returns what is in file 0.
func readString(t *testing.T, files []*File) string {
	t.Helper()
	var p [4]byte
	if _, err := files[0].ReadAt(p[:], 0); err != nil {
		t.Error(err)
	}
	return string(p[:])
}

// After Reopen a read opens the file again. A read in progress keeps what it has opened, and closes that.
func TestFile_Reopen(t *testing.T) {
	c, files, mem, faults := cacheFiles(t, 2, 16)
	readNumber(t, files, 0)
	readNumber(t, files, 1)
	entered, resume := make(chan struct{}), make(chan struct{})
	var reads atomic.Int64
	faults.Inject(func(op vfs.Op, name string, _ int64) error {
		if op == vfs.OpRead && name == "0000" && reads.Add(1) == 1 {
			close(entered)
			<-resume
		}
		return nil
	})
	var wg sync.WaitGroup
	wg.Go(func() { readNumber(t, files, 0) }) // the old file
	<-entered
	swap(t, mem)
	files[0].Reopen()
	if got := readString(t, files); got != "else" {
		t.Errorf("a read after Reopen finds %q", got)
	}
	if n := mem.OpenFiles(); n != 3 {
		t.Errorf("%d files are open, want two and the one that is being read", n)
	}
	close(resume)
	wg.Wait()
	if n := mem.OpenFiles(); n != 2 || c.open != 2 {
		t.Errorf("%d files are open, and the cache counts %d; want 2", n, c.open)
	}
	files[1].Close()
	files[1].Reopen() // it is gone, and stays so
	if _, err := files[1].ReadAt(make([]byte, 4), 0); !errors.Is(err, ErrGone) {
		t.Errorf("a read of a closed file: %v", err)
	}
}

// A lateFS opens a file and then calls opened, before anybody gets the file.
type lateFS struct {
	vfs.FS
	opened func()
}

func (l *lateFS) Open(name string) (vfs.File, error) {
	f, err := l.FS.Open(name)
	l.opened()
	return f, err
}

// An opening that is under way while Reopen is called does not leave the old file open.
func TestFile_ReopenDuringOpen(t *testing.T) {
	mem := vfs.NewMem()
	f, err := mem.Create("0000")
	if err == nil {
		_, err = f.Write([]byte("0000"))
	}
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
	opened, resume := make(chan struct{}), make(chan struct{})
	var opens atomic.Int64
	c := New(&lateFS{mem, func() {
		if opens.Add(1) == 1 {
			close(opened)
			<-resume
		}
	}}, 16)
	defer c.Close()
	files := []*File{c.Add("0000")}
	var wg sync.WaitGroup
	wg.Go(func() { readString(t, files) }) // the old file or the new one: both are right
	<-opened
	swap(t, mem)
	done := make(chan struct{})
	wg.Go(func() {
		files[0].Reopen()
		close(done)
	})
	select {
	case <-done:
		t.Error("Reopen did not wait for the opening that was under way")
	case <-time.After(20 * time.Millisecond):
	}
	close(resume)
	wg.Wait()
	if got := readString(t, files); got != "else" {
		t.Errorf("a read after Reopen finds %q", got)
	}
	if n := mem.OpenFiles(); n != 1 {
		t.Errorf("%d files are open", n)
	}
}
