package vfs

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// systems are the file systems that must behave alike, each with a directory
// to work in.
var systems = []struct {
	name string
	make func(t *testing.T) (FS, string)
	over func(FS) FS // nil: the file system itself
}{
	{"OS", inTempDir, nil},
	{"Mem", inMemory, nil},
	{"MemAfterCrash", func(t *testing.T) (FS, string) {
		return newMemWithDir(t, "/db").Crash(CrashConfig{}), "/db"
	}, nil},
	{"FaultOverOS", inTempDir, faultless},
	{"FaultOverMem", inMemory, faultless},
	{"CryptOverOS", inTempDir, encrypted},
	{"CryptOverMem", inMemory, encrypted},
}

func inTempDir(t *testing.T) (FS, string) { return Default, t.TempDir() }

func inMemory(t *testing.T) (FS, string) { return newMemWithDir(t, "/db"), "/db" }

// faultless returns a faultfs.FS that makes nothing fail.
func faultless(fs FS) FS { return Faultless(fs) }

// encrypted returns a crypt.FS.
func encrypted(fs FS) FS { return Encrypted(fs) }

// Faultless and Encrypted do it. faultfs_test.go sets them, because the packages import this one.
var Faultless, Encrypted func(FS) FS

// skipOnce skips a test that writes over bytes, if the files of fs take each byte once.
func skipOnce(t *testing.T, fs FS, dir string) {
	t.Helper()
	f := create(t, fs, filepath.Join(dir, "once"), "")
	defer f.Close()
	if _, once := AsWriteOnce(f); once {
		t.Skip("a file takes each byte once")
	}
}

// forEachFS runs test on each of systems and checks that a Mem has no file
// open at the end.
func forEachFS(t *testing.T, test func(t *testing.T, fs FS, dir string)) {
	for _, s := range systems {
		t.Run(s.name, func(t *testing.T) {
			base, dir := s.make(t)
			fs := base
			if s.over != nil {
				fs = s.over(base)
			}
			test(t, fs, dir)
			if m, ok := base.(*Mem); ok && m.OpenFiles() != 0 {
				t.Errorf("OpenFiles() = %d at the end, want 0", m.OpenFiles())
			}
		})
	}
}

func newMemWithDir(t *testing.T, dir string) *Mem {
	m := NewMem()
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
func create(t *testing.T, fs FS, name, data string) File {
	t.Helper()
	f, err := fs.Create(name)
	must(t, err)
	_, err = f.Write([]byte(data))
	must(t, err)
	return f
}

func writeFile(t *testing.T, fs FS, name, data string) {
	t.Helper()
	must(t, create(t, fs, name, data).Close())
}

// contents returns the bytes of an open file.
func contents(t *testing.T, f File) string {
	t.Helper()
	size, err := f.Size()
	must(t, err)
	buf := make([]byte, size+1)
	n, err := f.ReadAt(buf, 0)
	if int64(n) != size || err != io.EOF {
		t.Fatalf("ReadAt of %d bytes at 0 = %d, %v, want %d, EOF", size+1, n, err, size)
	}
	return string(buf[:n])
}

// readFile returns the content of name, or "-" if there is no such file.
func readFile(t *testing.T, f FS, name string) string {
	t.Helper()
	file, err := f.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return "-"
	}
	must(t, err)
	defer file.Close()
	return contents(t, file)
}

func wantFile(t *testing.T, fs FS, name, want string) {
	t.Helper()
	if got := readFile(t, fs, name); got != want {
		t.Errorf("%s = %.60q, want %.60q", name, got, want)
	}
}

func wantError(t *testing.T, what string, got, want error) {
	t.Helper()
	if !errors.Is(got, want) {
		t.Errorf("%s: error %v, want %v", what, got, want)
	}
}

func TestFS_WritePosition(t *testing.T) {
	forEachFS(t, func(t *testing.T, fs FS, dir string) {
		skipOnce(t, fs, dir)
		name := filepath.Join(dir, "a")
		f := create(t, fs, name, "hello")
		_, err := f.WriteAt([]byte("J"), 0)
		must(t, err)
		_, err = f.Write([]byte(" world")) // behind the first Write
		must(t, err)
		must(t, f.Sync())
		if got := contents(t, f); got != "Jello world" {
			t.Errorf("after Create, Write, WriteAt, Write: %q, want %q", got, "Jello world")
		}
		must(t, f.Close())

		f, err = fs.OpenReadWrite(name)
		must(t, err)
		_, err = f.Write([]byte("!"))
		must(t, err)
		_, err = f.WriteAt([]byte("."), 20)
		must(t, err)
		must(t, f.Close())
		wantFile(t, fs, name, "Jello world!\x00\x00\x00\x00\x00\x00\x00\x00.")
	})
}

func TestFS_CreateEmptiesForReaders(t *testing.T) {
	forEachFS(t, func(t *testing.T, fs FS, dir string) {
		skipOnce(t, fs, dir)
		name := filepath.Join(dir, "a")
		writeFile(t, fs, name, "old")
		r, err := fs.Open(name)
		must(t, err)
		writeFile(t, fs, name, "n")
		if got := contents(t, r); got != "n" {
			t.Errorf("reader of a file created anew sees %q, want %q", got, "n")
		}
		must(t, r.Close())
	})
}

func TestFS_ReadAtBounds(t *testing.T) {
	forEachFS(t, func(t *testing.T, fs FS, dir string) {
		f := create(t, fs, filepath.Join(dir, "a"), "0123456789")
		defer f.Close()
		tests := []struct {
			off  int64
			n    int
			want string
			err  error
		}{
			{0, 10, "0123456789", nil},
			{4, 3, "456", nil},
			{8, 5, "89", io.EOF},
			{10, 1, "", io.EOF},
			{99, 1, "", io.EOF},
			{10, 0, "", nil},
		}
		for _, tt := range tests {
			buf := make([]byte, tt.n)
			n, err := f.ReadAt(buf, tt.off)
			if string(buf[:n]) != tt.want || err != tt.err {
				t.Errorf("ReadAt(%d bytes, %d) = %q, %v, want %q, %v", tt.n, tt.off, buf[:n], err, tt.want, tt.err)
			}
		}
		if _, err := f.ReadAt(make([]byte, 1), -1); err == nil || err == io.EOF {
			t.Errorf("ReadAt(-1) = %v, want an error", err)
		}
		if _, err := f.WriteAt([]byte("x"), -1); err == nil {
			t.Error("WriteAt(-1) gave no error")
		}
	})
}

func TestFS_Truncate(t *testing.T) {
	forEachFS(t, func(t *testing.T, fs FS, dir string) {
		f := create(t, fs, filepath.Join(dir, "a"), strings.Repeat("x", 5000))
		defer f.Close()
		must(t, f.Truncate(3))
		must(t, f.Truncate(6))
		if got := contents(t, f); got != "xxx\x00\x00\x00" {
			t.Errorf("after a cut to 3 and growth to 6: %q", got)
		}
		_, err := f.Write([]byte("y")) // the position stays
		must(t, err)
		if size, _ := f.Size(); size != 5001 {
			t.Errorf("size after a write at the old end = %d, want 5001", size)
		}
	})
}

func TestFS_Preallocate(t *testing.T) {
	forEachFS(t, func(t *testing.T, fs FS, dir string) {
		name := filepath.Join(dir, "a")
		f := create(t, fs, name, "abc")
		defer f.Close()
		if err := f.Preallocate(10000); err == ErrUnsupported {
			wantFile(t, fs, name, "abc")
			return
		} else if err != nil {
			t.Fatal(err)
		}
		wantFile(t, fs, name, "abc"+strings.Repeat("\x00", 9997))
		must(t, f.Preallocate(5))
		if size, _ := f.Size(); size != 10000 {
			t.Errorf("size after a smaller Preallocate = %d, want 10000", size)
		}
		for _, size := range []int64{0, -1} {
			wantError(t, "Preallocate", f.Preallocate(size), errInvalid)
		}
	})
}

var errInvalid = fs.ErrInvalid

func TestFS_Names(t *testing.T) {
	forEachFS(t, func(t *testing.T, fs FS, dir string) {
		at := func(name string) string { return filepath.Join(dir, name) }
		writeFile(t, fs, at("a"), "A")
		writeFile(t, fs, at("b"), "B")
		must(t, fs.Link(at("a"), at("c")))
		must(t, fs.Rename(at("b"), at("a")))
		must(t, fs.Rename(at("a"), at("a")))
		must(t, fs.SyncDir(dir))
		wantFile(t, fs, at("a"), "B")
		wantFile(t, fs, at("b"), "-")
		wantFile(t, fs, at("c"), "A")
		must(t, fs.MkdirAll(at("x/y")))
		must(t, fs.MkdirAll(at("x/y")))
		must(t, fs.Rename(at("c"), at("x/y/c")))
		must(t, fs.Rename(at("x"), at("z")))
		wantFile(t, fs, at("z/y/c"), "A")

		names, err := fs.List(dir)
		must(t, err)
		if want := []string{"a", "z"}; !slices.Equal(names, want) {
			t.Errorf("List = %q, want %q", names, want)
		}
		info, err := fs.Stat(at("z/y/c"))
		if err != nil || info.Size != 1 || info.IsDir || info.ModTime.IsZero() {
			t.Errorf("Stat of a file of one byte = %+v, %v", info, err)
		}
		if info, err := fs.Stat(at("z")); err != nil || !info.IsDir {
			t.Errorf("Stat of a directory = %+v, %v", info, err)
		}
		if err := fs.Remove(at("z/y")); err == nil {
			t.Error("a directory with a file in it was removed")
		}
		must(t, fs.Remove(at("z/y/c")))
		must(t, fs.Remove(at("z/y")))
		wantFile(t, fs, at("z/y/c"), "-")
	})
}

func TestFS_NameErrors(t *testing.T) {
	forEachFS(t, func(t *testing.T, f FS, dir string) {
		at := func(name string) string { return filepath.Join(dir, name) }
		writeFile(t, f, at("a"), "A")
		writeFile(t, f, at("b"), "B")
		must(t, f.MkdirAll(at("d")))
		must(t, f.MkdirAll(at("full/e")))
		opened := func(f File, err error) error {
			if err == nil {
				f.Close()
			}
			return err
		}
		_, listErr := f.List(at("no"))
		_, statErr := f.Stat(at("no"))
		_, lockErr := f.Lock(at("no/LOCK"))
		for what, err := range map[string]error{
			"Open":          opened(f.Open(at("no"))),
			"OpenReadWrite": opened(f.OpenReadWrite(at("no"))),
			"Create":        opened(f.Create(at("no/a"))),
			"Rename":        f.Rename(at("no"), at("x")),
			"Rename to no":  f.Rename(at("a"), at("no/x")),
			"Remove":        f.Remove(at("no")),
			"Link":          f.Link(at("no"), at("x")),
			"List":          listErr,
			"Stat":          statErr,
			"SyncDir":       f.SyncDir(at("no")),
			"Lock":          lockErr,
		} {
			wantError(t, what, err, fs.ErrNotExist)
		}
		wantError(t, "Link to a taken name", f.Link(at("a"), at("b")), fs.ErrExist)
		for what, err := range map[string]error{
			"Create over a directory":   opened(f.Create(at("d"))),
			"MkdirAll over a file":      f.MkdirAll(at("a/b")),
			"Create below a file":       opened(f.Create(at("a/b"))),
			"Rename file to directory":  f.Rename(at("a"), at("d")),
			"Rename directory to file":  f.Rename(at("d"), at("a")),
			"Rename over a full one":    f.Rename(at("d"), at("full")),
			"Rename of a dir below":     f.Rename(at("d"), at("d/e")),
			"Link of a directory":       f.Link(at("d"), at("e")),
			"Open for writing of a dir": opened(f.OpenReadWrite(at("d"))),
		} {
			if err == nil {
				t.Errorf("%s gave no error", what)
			}
		}
		wantFile(t, f, at("a"), "A")
		wantFile(t, f, at("b"), "B")
	})
}

func TestFS_OpenFilesSurviveRemoval(t *testing.T) {
	forEachFS(t, func(t *testing.T, fs FS, dir string) {
		name := filepath.Join(dir, "a")
		f := create(t, fs, name, "old")
		must(t, fs.Remove(name))
		writeFile(t, fs, name, "new")
		_, err := f.Write([]byte("er"))
		must(t, err)
		must(t, f.Sync())
		if got := contents(t, f); got != "older" {
			t.Errorf("removed file reads %q, want %q", got, "older")
		}
		must(t, f.Close())
		wantFile(t, fs, name, "new")
	})
}

func TestFS_ClosedAndReadOnlyFiles(t *testing.T) {
	forEachFS(t, func(t *testing.T, fsys FS, dir string) {
		name := filepath.Join(dir, "a")
		f := create(t, fsys, name, "abc")
		must(t, f.Close())
		_, readErr := f.ReadAt(make([]byte, 1), 0)
		_, writeErr := f.Write([]byte("x"))
		_, atErr := f.WriteAt([]byte("x"), 0)
		_, sizeErr := f.Size()
		for what, err := range map[string]error{
			"ReadAt": readErr, "Write": writeErr, "WriteAt": atErr, "Size": sizeErr,
			"Sync": f.Sync(), "Truncate": f.Truncate(0), "Close": f.Close(),
		} {
			wantError(t, what+" of a closed file", err, fs.ErrClosed)
		}
		r, err := fsys.Open(name)
		must(t, err)
		defer r.Close()
		if _, err := r.Write([]byte("x")); err == nil {
			t.Error("Write to a file opened for reading gave no error")
		}
		if err := r.Truncate(0); err == nil {
			t.Error("Truncate of a file opened for reading gave no error")
		}
		wantFile(t, fsys, name, "abc")
	})
}

func TestFS_Mapping(t *testing.T) {
	forEachFS(t, func(t *testing.T, fsys FS, dir string) {
		skipOnce(t, fsys, dir)
		name := filepath.Join(dir, "a")
		f := create(t, fsys, name, "")
		defer f.Close()
		if err := f.Preallocate(8192); err == ErrUnsupported {
			t.Skip("no Preallocate here")
		} else if err != nil {
			t.Fatal(err)
		}
		if m, err := f.(Mapper).Map(8193); err == nil {
			m.Unmap()
			t.Error("Map beyond the file's end gave no error")
		}
		m, err := f.(Mapper).Map(8192)
		if err == ErrUnsupported {
			t.Skip("no Map here")
		}
		must(t, err)
		want := bytes.Repeat([]byte{0}, 8192)
		for _, w := range []struct {
			off  int64
			data string
		}{{0, "first"}, {4090, "over a page's end"}, {8190, "ok"}, {5, ""}, {8192, ""}} {
			n, err := m.WriteAt([]byte(w.data), w.off)
			if n != len(w.data) || err != nil {
				t.Fatalf("WriteAt(%q, %d) = %d, %v", w.data, w.off, n, err)
			}
			copy(want[w.off:], w.data)
		}
		if got := contents(t, f); got != string(want) {
			t.Error("ReadAt does not see what was written through the mapping")
		}
		must(t, f.Sync())
		for _, off := range []int64{-1, 8191, 8193, 1 << 40} {
			if _, err := m.WriteAt([]byte("xy"), off); err == nil {
				t.Errorf("WriteAt(2 bytes, %d) gave no error", off)
				break // a faultfs.FS makes the first one final
			}
		}
		must(t, m.Unmap())
		wantError(t, "second Unmap", m.Unmap(), fs.ErrClosed)
		wantFile(t, fsys, name, string(want))
	})
}

// Shared locks keep out only an exclusive lock, and change nothing.
func TestFS_LockShared(t *testing.T) {
	forEachFS(t, func(t *testing.T, fsys FS, dir string) {
		name := filepath.Join(dir, "LOCK")
		share := fsys.(SharedLocker).LockShared
		_, err := share(name)
		wantError(t, "LockShared of no file", err, fs.ErrNotExist)
		owner, err := fsys.Lock(name)
		must(t, err)
		_, err = share(name)
		wantError(t, "LockShared beside an owner", err, ErrLocked)
		must(t, owner.Close())
		must(t, fsys.Remove(name))
		writeFile(t, fsys, name, "a number\n")
		one, err := share(name)
		must(t, err)
		two, err := share(filepath.Join(dir, "x", "..", "LOCK"))
		must(t, err)
		must(t, one.Close())
		_, err = fsys.Lock(name)
		wantError(t, "Lock of a shared file", err, ErrLocked)
		must(t, two.Close())
		wantError(t, "second Close", two.Close(), fs.ErrClosed)
		wantFile(t, fsys, name, "a number\n")
		owner, err = fsys.Lock(name)
		must(t, err)
		must(t, owner.Close())
	})
}

func TestFS_Lock(t *testing.T) {
	forEachFS(t, func(t *testing.T, fsys FS, dir string) {
		name := filepath.Join(dir, "LOCK")
		for range 2 {
			l, err := fsys.Lock(name)
			must(t, err)
			for _, again := range []string{name, filepath.Join(dir, ".", "x", "..", "LOCK")} {
				_, err = fsys.Lock(again)
				wantError(t, "second Lock", err, ErrLocked)
			}
			if other, err := fsys.Lock(filepath.Join(dir, "LOCK2")); err != nil {
				t.Errorf("Lock of another file: %v", err)
			} else {
				must(t, other.Close())
			}
			if runtime.GOOS != "windows" { // where it fails
				must(t, fsys.Remove(name))
				_, err = fsys.Lock(name)
				wantError(t, "Lock after the file was removed", err, ErrLocked)
			}
			must(t, l.Close())
			wantError(t, "second Close", l.Close(), fs.ErrClosed)
		}
		writeFile(t, fsys, filepath.Join(dir, "other"), "")
		names, err := fsys.List(dir)
		must(t, err)
		if len(names) < 2 {
			t.Errorf("List = %q: a lock file was removed", names)
		}
	})
}
