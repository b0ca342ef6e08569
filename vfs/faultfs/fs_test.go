package faultfs

import (
	"errors"
	"io/fs"
	"strings"
	"syscall"
	"testing"

	"github.com/shaledb/shale/vfs"
)

var errTest = errors.New("test fault")

func newMemWithDir(t *testing.T, dir string) *vfs.Mem {
	m := vfs.NewMem()
	must(t, m.MkdirAll(dir))
	return m
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// create returns the new file name with the content data, open.
func create(t *testing.T, fs vfs.FS, name, data string) vfs.File {
	t.Helper()
	f, err := fs.Create(name)
	must(t, err)
	_, err = f.Write([]byte(data))
	must(t, err)
	return f
}

func wantFile(t *testing.T, fs vfs.FS, name, want string) {
	t.Helper()
	f, err := fs.Open(name)
	must(t, err)
	defer f.Close()
	size, err := f.Size()
	must(t, err)
	got := make([]byte, size)
	if _, err := f.ReadAt(got, 0); err != nil || string(got) != want {
		t.Errorf("%s = %.60q, %v, want %.60q", name, got, err, want)
	}
}

func wantError(t *testing.T, what string, got, want error) {
	t.Helper()
	if !errors.Is(got, want) {
		t.Errorf("%s: error %v, want %v", what, got, want)
	}
}

// life uses every kind of operation and returns the first
// error of each. The error of the mapping is separate.
func life(f *FS) (errs []error) {
	note := func(err error) bool {
		if err != nil {
			errs = append(errs, err)
		}
		return err == nil
	}
	note(f.MkdirAll("/d"))
	if l, err := f.Lock("/d/LOCK"); note(err) {
		defer func() { note(l.Close()) }()
		note(vfs.Held(l))
	}
	if file, err := f.Create("/d/a"); note(err) {
		_, err := file.Write([]byte("hello"))
		note(err)
		note(file.Sync())
		note(file.Preallocate(20))
		if m, err := file.(vfs.Mapper).Map(20); note(err) {
			_, err := m.WriteAt([]byte("mapped"), 10)
			note(err)
			note(m.Unmap())
		}
		note(file.Truncate(16))
		note(file.Close())
	}
	note(f.Link("/d/a", "/d/b"))
	note(f.Rename("/d/b", "/d/c"))
	note(f.SyncDir("/d"))
	if file, err := f.Open("/d/a"); note(err) {
		_, err := file.ReadAt(make([]byte, 3), 0)
		note(err)
		_, err = file.Size()
		note(err)
		note(file.Close())
	}
	if file, err := f.OpenReadWrite("/d/a"); note(err) {
		note(file.Close())
	}
	_, err := f.List("/d")
	note(err)
	_, err = f.Stat("/d/a")
	note(err)
	if l, err := f.LockShared("/d/c"); note(err) {
		note(l.Close())
	}
	note(f.Remove("/d/a"))
	return errs
}

// Each operation of a life fails once. The error is
// returned, nothing else breaks, and no file stays open.
func TestEveryOperationOnce(t *testing.T) {
	dry := New(vfs.NewMem(), nil)
	if errs := life(dry); len(errs) > 0 {
		t.Fatal(errs)
	}
	for _, op := range vfs.AllOps() {
		if dry.Count(op) == 0 {
			t.Errorf("the life has no operation %q", op)
		}
	}
	for _, after := range []bool{false, true} {
		for k := int64(1); k <= dry.Ops(); k++ {
			m := vfs.NewMem()
			errs := life(New(m, FailAt(k, &Fault{Err: errTest, After: after})))
			if len(errs) == 0 || !errors.Is(errs[0], errTest) {
				t.Errorf("fault at operation %d: first error %v, want %v", k, errs, errTest)
			}
			if n := m.OpenFiles(); n != 0 {
				t.Errorf("fault at operation %d: %d files stay open", k, n)
			}
		}
	}
}

func TestKinds(t *testing.T) {
	for _, op := range vfs.AllOps() {
		f := New(vfs.NewMem(), FailFrom(1, errTest, op))
		errs := life(f)
		if int64(len(errs)) < f.Count(op) {
			t.Errorf("%v: %d errors from %d failures", op, len(errs), f.Count(op))
		}
		var pe *fs.PathError
		if !errors.As(errs[0], &pe) || pe.Op != op.String() {
			t.Errorf("%v: error %v does not name the operation", op, errs[0])
		}
	}
	f := New(vfs.NewMem(), FailAt(2, errTest, vfs.OpClose, vfs.OpSync)) // Sync, Close, Close
	if errs := life(f); len(errs) != 1 || !strings.Contains(errs[0].Error(), "close /d/a") {
		t.Errorf("second of sync and close failed: %v", errs)
	}
	if got := vfs.Op(99).String(); got != "Op(99)" {
		t.Errorf("Op(99).String() = %q", got)
	}
}

// On a full disk half of a write happens, and then
// no more. Operations that need no room still work.
func TestFullDisk(t *testing.T) {
	f := New(newMemWithDir(t, "/d"), nil)
	file := create(t, f, "/d/a", "")
	defer file.Close()
	f.Inject(FullFrom(2, syscall.ENOSPC))
	for _, want := range []int{4, 2, 0, 0} {
		n, err := file.Write([]byte("data"))
		if n != want || (n < 4) != errors.Is(err, syscall.ENOSPC) {
			t.Errorf("Write = %d, %v, want %d", n, err, want)
		}
	}
	_, err := f.Create("/d/b")
	wantError(t, "Create", err, syscall.ENOSPC)
	must(t, file.Sync())
	must(t, f.Rename("/d/a", "/d/c"))
	wantFile(t, f, "/d/c", "datada")
	f.Inject(nil)
	_, err = file.Write([]byte("!"))
	must(t, err)
	wantFile(t, f, "/d/c", "datada!")
}

// The sync after a failed one succeeds, but the lost data stays lost.
func TestFailedSyncLosesData(t *testing.T) {
	m := newMemWithDir(t, "/d")
	f := New(New(m, nil), FailAt(1, syscall.EIO, vfs.OpSync))
	file := create(t, f, "/d/a", "lost")
	must(t, f.SyncDir("/d"))
	wantError(t, "first Sync", file.Sync(), syscall.EIO)
	must(t, file.Sync())
	wantFile(t, m, "/d/a", "lost")
	wantFile(t, m.Crash(vfs.CrashConfig{}), "/d/a", "\x00\x00\x00\x00")
}

// A fault of a mapping is final for it and for nothing else.
func TestMapping(t *testing.T) {
	m := newMemWithDir(t, "/d")
	f := New(m, FailAt(2, &Fault{Err: syscall.EIO, Short: true}, vfs.OpMapWrite))
	file := create(t, f, "/d/a", "")
	must(t, file.Preallocate(8))
	w, err := file.(vfs.Mapper).Map(8)
	must(t, err)
	for _, want := range []error{nil, syscall.EIO, syscall.EIO} {
		_, err := w.WriteAt([]byte("data"), 2)
		wantError(t, "WriteAt", err, want)
	}
	must(t, w.Unmap())
	_, err = file.WriteAt([]byte("DA"), 0)
	must(t, err)
	wantFile(t, m, "/d/a", "DAdata\x00\x00")
}

// If the file below can't be mapped, neither can this one.
func TestNoMapper(t *testing.T) {
	file := create(t, vfs.NewMem(), "a", "")
	f := &openFile{fs: New(nil, nil), file: struct{ vfs.File }{file}}
	_, err := f.Map(1)
	wantError(t, "Map", err, vfs.ErrUnsupported)
}
