package vfs

import (
	"errors"
	"io/fs"
	"strings"
	"syscall"
	"testing"
)

var errTest = errors.New("test fault")

// life uses every kind of operation and returns the first
// error of each. The error of the mapping is separate.
func life(f *FaultFS) (errs []error) {
	note := func(err error) bool {
		if err != nil {
			errs = append(errs, err)
		}
		return err == nil
	}
	note(f.MkdirAll("/d"))
	if l, err := f.Lock("/d/LOCK"); note(err) {
		defer func() { note(l.Close()) }()
		note(Held(l))
	}
	if file, err := f.Create("/d/a"); note(err) {
		_, err := file.Write([]byte("hello"))
		note(err)
		note(file.Sync())
		note(file.Preallocate(20))
		if m, err := file.(Mapper).Map(20); note(err) {
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
func TestFault_EveryOperationOnce(t *testing.T) {
	dry := NewFault(NewMem(), nil)
	if errs := life(dry); len(errs) > 0 {
		t.Fatal(errs)
	}
	for _, op := range AllOps() {
		if dry.Count(op) == 0 {
			t.Errorf("the life has no operation %q", op)
		}
	}
	for _, after := range []bool{false, true} {
		for k := int64(1); k <= dry.Ops(); k++ {
			m := NewMem()
			errs := life(NewFault(m, FailAt(k, &Fault{Err: errTest, After: after})))
			if len(errs) == 0 || !errors.Is(errs[0], errTest) {
				t.Errorf("fault at operation %d: first error %v, want %v", k, errs, errTest)
			}
			if n := m.OpenFiles(); n != 0 {
				t.Errorf("fault at operation %d: %d files stay open", k, n)
			}
		}
	}
}

func TestFault_Kinds(t *testing.T) {
	for _, op := range AllOps() {
		f := NewFault(NewMem(), FailFrom(1, errTest, op))
		errs := life(f)
		if int64(len(errs)) < f.Count(op) {
			t.Errorf("%v: %d errors from %d failures", op, len(errs), f.Count(op))
		}
		var pe *fs.PathError
		if !errors.As(errs[0], &pe) || pe.Op != op.String() {
			t.Errorf("%v: error %v does not name the operation", op, errs[0])
		}
	}
	f := NewFault(NewMem(), FailAt(2, errTest, OpClose, OpSync)) // Sync, Close, Close
	if errs := life(f); len(errs) != 1 || !strings.Contains(errs[0].Error(), "close /d/a") {
		t.Errorf("second of sync and close failed: %v", errs)
	}
	if got := Op(99).String(); got != "Op(99)" {
		t.Errorf("Op(99).String() = %q", got)
	}
}

func TestFault_Inject(t *testing.T) {
	f := NewFault(NewMem(), FailFrom(1, errTest))
	wantError(t, "MkdirAll", f.MkdirAll("/d"), errTest)
	f.Inject(nil)
	must(t, f.MkdirAll("/d"))
	f.Inject(func(op Op, name string, n int64) error {
		if n != 3 || op != OpStat || name != "/d/x" {
			t.Errorf("operation %d is %v of %s", n, op, name)
		}
		return nil
	})
	_, err := f.Stat("/d/x")
	wantError(t, "Stat", err, fs.ErrNotExist)
}

// On a full disk half of a write happens, and then
// no more. Operations that need no room still work.
func TestFault_FullDisk(t *testing.T) {
	f := NewFault(newMemWithDir(t, "/d"), nil)
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

// The outcome of an operation may differ from its answer.
func TestFault_After(t *testing.T) {
	m := newMemWithDir(t, "/d")
	f := NewFault(m, nil)
	file := create(t, f, "/d/a", "")
	defer file.Close()
	f.Inject(FailFrom(1, &Fault{Err: errTest, After: true}))
	n, err := file.Write([]byte("data"))
	if n != 4 || !errors.Is(err, errTest) {
		t.Errorf("Write = %d, %v, want 4, %v", n, err, errTest)
	}
	wantError(t, "Sync", file.Sync(), errTest)
	wantError(t, "SyncDir", f.SyncDir("/d"), errTest)
	wantFile(t, m.Crash(CrashConfig{}), "/d/a", "data")
	wantError(t, "Rename", f.Rename("/d/a", "/d/b"), errTest)
	wantFile(t, m, "/d/b", "data")
}

// The sync after a failed one succeeds, but the lost data stays lost.
func TestFault_FailedSyncLosesData(t *testing.T) {
	m := newMemWithDir(t, "/d")
	f := NewFault(NewFault(m, nil), FailAt(1, syscall.EIO, OpSync))
	file := create(t, f, "/d/a", "lost")
	must(t, f.SyncDir("/d"))
	wantError(t, "first Sync", file.Sync(), syscall.EIO)
	must(t, file.Sync())
	wantFile(t, m, "/d/a", "lost")
	wantFile(t, m.Crash(CrashConfig{}), "/d/a", "\x00\x00\x00\x00")
}

// A fault of a mapping is final for it and for nothing else.
func TestFault_Mapping(t *testing.T) {
	m := newMemWithDir(t, "/d")
	f := NewFault(m, FailAt(2, &Fault{Err: syscall.EIO, Short: true}, OpMapWrite))
	file := create(t, f, "/d/a", "")
	must(t, file.Preallocate(8))
	w, err := file.(Mapper).Map(8)
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
func TestFault_NoMapper(t *testing.T) {
	file := create(t, NewMem(), "a", "")
	f := &faultFile{fs: NewFault(nil, nil), file: struct{ File }{file}}
	_, err := f.Map(1)
	wantError(t, "Map", err, ErrUnsupported)
}

// If a file is cut while it is mapped, the write fails, as it does with the operating system.
func TestMem_MappingOfACutFile(t *testing.T) {
	file := create(t, NewMem(), "a", "")
	must(t, file.Preallocate(100))
	w, err := file.(Mapper).Map(100)
	must(t, err)
	must(t, file.Truncate(10))
	_, first := w.WriteAt([]byte("x"), 50)
	if first == nil {
		t.Error("a write behind the end of the file gave no error")
	}
	if _, again := w.WriteAt([]byte("x"), 0); again != first {
		t.Errorf("next write: %v, want %v", again, first)
	}
	must(t, w.Unmap())
}

// Sizes that would need a huge page table are refused.
func TestMem_Bounds(t *testing.T) {
	file := create(t, NewMem(), "a", "")
	for _, size := range []int64{-1, maxMemFile + 1, 1<<63 - 1} {
		if err := file.Truncate(size); err == nil {
			t.Errorf("Truncate(%d) gave no error", size)
		}
		if _, err := file.WriteAt([]byte("x"), size); err == nil {
			t.Errorf("WriteAt(%d) gave no error", size)
		}
		if err := file.Preallocate(size); err == nil {
			t.Errorf("Preallocate(%d) gave no error", size)
		}
	}
	if size, _ := file.Size(); size != 0 {
		t.Errorf("size %d after refused changes, want 0", size)
	}
}
