package guard

import (
	"errors"
	"io/fs"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/shaledb/shale/vfs"
	"github.com/shaledb/shale/vfs/faultfs"
)

// plain is a file system that can't be bound to a directory.
type plain struct{ vfs.FS }

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func write(t *testing.T, fsys vfs.FS, name string) {
	t.Helper()
	f, err := fsys.Create(name)
	must(t, err)
	must(t, f.Close())
}

// hold returns an FS that holds the directory db of fsys, and how often it has said that this is lost.
func hold(t *testing.T, fsys vfs.FS) (f *FS, told *[]error) {
	t.Helper()
	told = new([]error)
	must(t, fsys.MkdirAll("db"))
	f = New(fsys, "db", func(err error) { *told = append(*told, err) })
	write(t, f, "db/before") // without a lock all calls are passed on
	lock, err := fsys.Lock("db/LOCK")
	must(t, err)
	t.Cleanup(func() { must(t, lock.Close()) })
	must(t, f.Hold(lock))
	write(t, f, "db/a")
	return f, told
}

// When the directory is another one, each call that would change it is refused, for good, and one that
// reads finds nothing of it. Other directories are as before.
func TestFS_Moved(t *testing.T) {
	for name, fsys := range map[string]vfs.FS{"bound": vfs.NewMem(), "by path": plain{vfs.NewMem()}} {
		t.Run(name, func(t *testing.T) {
			f, told := hold(t, fsys)
			must(t, fsys.Rename("db", "moved"))
			must(t, fsys.MkdirAll("db"))
			must(t, fsys.MkdirAll("copy"))
			write(t, fsys, "db/theirs")
			if _, err := f.Open("db/theirs"); !errors.Is(err, vfs.ErrMoved) {
				t.Errorf("Open of another's file: %v", err)
			}
			refused := func(when string) {
				t.Helper()
				_, create := f.Create("db/b")
				_, open := f.OpenReadWrite("db/theirs")
				for what, err := range map[string]error{
					"Create": create, "OpenReadWrite": open, "Rename": f.Rename("db/theirs", "db/b"), "Remove": f.Remove("db/theirs"),
					"Link": f.Link("db/theirs", "copy/theirs"), "SyncDir": f.SyncDir("db"), "Check": f.Check(), "Lost": f.Lost(),
				} {
					if !errors.Is(err, vfs.ErrMoved) || !strings.Contains(err.Error(), "db was renamed") {
						t.Errorf("%s %s: %v", what, when, err)
					}
				}
			}
			refused("while another directory is there")
			if names, err := fsys.List("db"); err != nil || len(names) != 1 {
				t.Errorf("the other directory has %q, %v", names, err)
			}
			write(t, f, "copy/a")
			must(t, f.Rename("copy/a", "copy/b"))
			must(t, f.SyncDir("copy"))
			must(t, fsys.Remove("db/theirs"))
			must(t, fsys.Remove("db"))
			must(t, fsys.Rename("moved", "db"))
			refused("when it is back")
			if len(*told) != 1 {
				t.Errorf("it was said %d times: %v", len(*told), *told)
			}
		})
	}
}

// A file that is missing while all is in its place is only missing. Where nobody can say whether the
// directory is there, a file system that goes by path changes nothing.
func TestFS_Unknown(t *testing.T) {
	for name, c := range map[string]struct {
		wrap    func(vfs.FS) vfs.FS
		refuses bool
	}{
		"bound":   {func(fsys vfs.FS) vfs.FS { return fsys }, false},
		"by path": {func(fsys vfs.FS) vfs.FS { return plain{fsys} }, true},
	} {
		t.Run(name, func(t *testing.T) {
			faulty := faultfs.New(vfs.NewMem(), nil)
			f, told := hold(t, c.wrap(faulty))
			if _, err := f.Open("db/none"); !errors.Is(err, fs.ErrNotExist) || errors.Is(err, vfs.ErrMoved) {
				t.Errorf("Open of no file: %v", err)
			}
			faulty.Inject(faultfs.FailFrom(1, syscall.EIO, vfs.OpHeld))
			if err := f.Remove("db/a"); (err != nil) != c.refuses {
				t.Errorf("Remove: %v", err)
			}
			faulty.Inject(nil)
			write(t, f, "db/b")
			if len(*told) != 0 || f.Lost() != nil {
				t.Errorf("it was said that the directory is lost: %v", *told)
			}
		})
	}
}

// Of several operations that find out at the same time, none gets the error before it was told.
func TestFS_ToldFirst(t *testing.T) {
	for range 200 {
		var told atomic.Int64
		mem := vfs.NewMem()
		must(t, mem.MkdirAll("db"))
		f := New(mem, "db", func(error) {
			runtime.Gosched()
			told.Add(1)
		})
		lock, err := mem.Lock("db/LOCK")
		must(t, err)
		must(t, f.Hold(lock))
		must(t, mem.Rename("db", "moved"))
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				if err := f.Check(); !errors.Is(err, vfs.ErrMoved) || told.Load() != 1 {
					t.Errorf("Check: %v, told %d times", err, told.Load())
				}
			})
		}
		wg.Wait()
		must(t, lock.Close())
	}
}
