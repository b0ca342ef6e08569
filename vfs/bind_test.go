package vfs

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// lockBound takes the lock of dir and binds the file system to the directory.
func lockBound(t *testing.T, fsys FS, dir string) (bound FS, lock io.Closer) {
	t.Helper()
	lock, err := fsys.Lock(filepath.Join(dir, "LOCK"))
	must(t, err)
	t.Cleanup(func() { lock.Close() }) // if the test has not done so
	bound, err = Bind(fsys, lock)
	if errors.Is(err, ErrUnsupported) && runtime.GOOS == "windows" {
		t.Skip("directories with open files can't be moved")
	}
	must(t, err)
	must(t, Held(lock))
	return bound, lock
}

// names returns what is in a directory, without the lock file.
func names(t *testing.T, fsys FS, dir string) string {
	t.Helper()
	all, err := fsys.List(dir)
	must(t, err)
	return strings.Join(slices.DeleteFunc(all, func(name string) bool { return name == "LOCK" }), " ")
}

// copyOver gives the file to the bytes of the lock file from, or other ones if fsys encrypts all others.
func copyOver(t *testing.T, fsys FS, from, to string) {
	t.Helper()
	if f, err := fsys.Open(from); err != nil && strings.Contains(t.Name(), "Crypt") {
		writeFile(t, fsys, to, "1\n")
		return
	} else if err == nil {
		must(t, f.Close())
	}
	writeFile(t, fsys, to, readFile(t, fsys, from))
}

// Each way in which the name of a lock can come to mean something else is noticed, and so is the
// way back.
func TestHeld(t *testing.T) {
	for _, way := range []struct {
		name       string
		move, back func(t *testing.T, fsys FS, dir string)
	}{
		{"renamed", func(t *testing.T, fsys FS, dir string) { must(t, fsys.Rename(dir, dir+".old")) },
			func(t *testing.T, fsys FS, dir string) { must(t, fsys.Rename(dir+".old", dir)) }},
		{"replaced", func(t *testing.T, fsys FS, dir string) {
			must(t, fsys.Rename(dir, dir+".old"))
			must(t, fsys.MkdirAll(dir))
			copyOver(t, fsys, filepath.Join(dir+".old", "LOCK"), filepath.Join(dir, "LOCK"))
		}, func(t *testing.T, fsys FS, dir string) {
			must(t, fsys.Rename(dir, dir+".new"))
			must(t, fsys.Rename(dir+".old", dir))
		}},
		{"a file in the way", func(t *testing.T, fsys FS, dir string) {
			must(t, fsys.Rename(dir, dir+".old"))
			writeFile(t, fsys, dir, "x")
		}, nil},
		{"lock file deleted", func(t *testing.T, fsys FS, dir string) { must(t, fsys.Remove(filepath.Join(dir, "LOCK"))) }, nil},
		{"lock file replaced by a copy", func(t *testing.T, fsys FS, dir string) {
			name := filepath.Join(dir, "LOCK")
			copyOver(t, fsys, name, name+".copy")
			must(t, fsys.Rename(name+".copy", name))
		}, nil},
		{"all removed", func(t *testing.T, fsys FS, dir string) {
			must(t, fsys.Remove(filepath.Join(dir, "LOCK")))
			must(t, fsys.Remove(dir))
		}, nil},
		{"a parent renamed", func(t *testing.T, fsys FS, dir string) {
			must(t, fsys.Rename(filepath.Dir(dir), filepath.Dir(dir)+".old"))
		}, func(t *testing.T, fsys FS, dir string) {
			must(t, fsys.Rename(filepath.Dir(dir)+".old", filepath.Dir(dir)))
		}},
	} {
		t.Run(way.name, func(t *testing.T) {
			forEachFS(t, func(t *testing.T, fsys FS, dir string) {
				dir = filepath.Join(dir, "parent", "store")
				must(t, fsys.MkdirAll(dir))
				_, lock := lockBound(t, fsys, dir)
				way.move(t, fsys, dir)
				wantError(t, "Held", Held(lock), ErrMoved)
				if way.back != nil {
					way.back(t, fsys, dir)
					must(t, Held(lock))
				}
				must(t, lock.Close())
			})
		})
	}
}

// A bound file system goes on in the directory that was locked. What has its name now is another's:
// that one gets the lock, and keeps what it has.
func TestBind_DirectoryMoves(t *testing.T) {
	forEachFS(t, func(t *testing.T, fsys FS, dir string) {
		dir, old := filepath.Join(dir, "store"), filepath.Join(dir, "moved")
		must(t, fsys.MkdirAll(dir))
		in := func(name string) string { return filepath.Join(dir, name) }
		bound, lock := lockBound(t, fsys, dir)
		for _, name := range []string{"a", "b", "c", "log"} {
			writeFile(t, bound, in(name), "mine")
		}
		must(t, fsys.Rename(dir, old))
		must(t, fsys.MkdirAll(dir))
		other, err := fsys.Lock(in("LOCK"))
		must(t, err)
		for _, name := range []string{"a", "b", "log", "theirs"} {
			writeFile(t, fsys, in(name), "theirs")
		}
		_, err = fsys.Lock(filepath.Join(old, "LOCK"))
		wantError(t, "Lock of the directory that was moved", err, ErrLocked)

		must(t, bound.Remove(in("a")))
		must(t, bound.Rename(in("b"), in("B")))
		writeFile(t, bound, in("new"), "mine")
		f, err := bound.OpenReadWrite(in("log"))
		must(t, err)
		_, err = f.Write([]byte(" more"))
		must(t, err)
		must(t, f.Close())
		must(t, bound.SyncDir(dir))
		if err := bound.Link(in("c"), filepath.Join(old, "..", "link")); !errors.Is(err, ErrUnsupported) {
			must(t, err)
		}
		if got := readFile(t, bound, in("log")); got != "mine more" {
			t.Errorf("log reads %q", got)
		}
		if info, err := bound.Stat(in("log")); err != nil || info.Size != 9 {
			t.Errorf("Stat of the log: %v, %v", info, err)
		}
		_, err = bound.Stat(in("theirs"))
		wantError(t, "Stat of another's file", err, fs.ErrNotExist)
		_, err = bound.Open(in("theirs"))
		wantError(t, "Open of another's file", err, fs.ErrNotExist)
		wantError(t, "Link of another's file", bound.Link(in("theirs"), filepath.Join(old, "..", "stolen")), fs.ErrNotExist)
		if err := bound.Link(in("log"), filepath.Join(old, "..", "stolen")); err == nil && readFile(t, fsys, filepath.Join(old, "..", "stolen")) != "mine more" {
			t.Error("another's file was linked")
		}
		for dir, want := range map[string]string{dir: "B c log new", old: "B c log new"} {
			if got := names(t, bound, dir); got != want {
				t.Errorf("the owner finds %q in %s, want %q", got, dir, want)
			}
		}
		if got, want := names(t, fsys, dir), "a b log theirs"; got != want {
			t.Errorf("the other directory has %q, want %q", got, want)
		}
		for _, name := range []string{"a", "b", "log"} {
			if got := readFile(t, fsys, in(name)); got != "theirs" {
				t.Errorf("%s of the other directory reads %q", name, got)
			}
		}
		must(t, other.Close())
		must(t, lock.Close())
	})
}

// In a directory that was removed there is nothing, also if another one has its name.
func TestBind_DirectoryRemoved(t *testing.T) {
	forEachFS(t, func(t *testing.T, fsys FS, dir string) {
		dir = filepath.Join(dir, "store")
		must(t, fsys.MkdirAll(dir))
		bound, lock := lockBound(t, fsys, dir)
		must(t, fsys.Remove(filepath.Join(dir, "LOCK")))
		must(t, fsys.Remove(dir))
		for range 2 {
			_, err := bound.Create(filepath.Join(dir, "a"))
			wantError(t, "Create", err, fs.ErrNotExist)
			_, err = bound.Open(filepath.Join(dir, "a"))
			wantError(t, "Open", err, fs.ErrNotExist)
			wantError(t, "Remove", bound.Remove(filepath.Join(dir, "a")), fs.ErrNotExist)
			must(t, fsys.MkdirAll(dir))
			writeFile(t, fsys, filepath.Join(dir, "theirs"), "x")
		}
		if got := names(t, fsys, dir); got != "theirs" {
			t.Errorf("the other directory has %q", got)
		}
		must(t, lock.Close())
	})
}

// The files of a bound directory may be links to other directories. They can be read.
func TestBind_Links(t *testing.T) {
	top := t.TempDir()
	dir, far := filepath.Join(top, "store"), filepath.Join(top, "far")
	must(t, Default.MkdirAll(dir))
	must(t, Default.MkdirAll(far))
	in := func(name string) string { return filepath.Join(dir, name) }
	writeFile(t, Default, filepath.Join(far, "file"), "far")
	for name, to := range map[string]string{"absolute": filepath.Join(far, "file"), "relative": filepath.Join("..", "far", "file"), "LOCK": filepath.Join(far, "LOCK")} {
		if err := os.Symlink(to, in(name)); err != nil {
			t.Skip(err)
		}
	}
	bound, lock := lockBound(t, Default, dir)
	for _, name := range []string{"absolute", "relative"} {
		if got := readFile(t, bound, in(name)); got != "far" {
			t.Errorf("%s reads %q", name, got)
		}
		if info, err := bound.Stat(in(name)); err != nil || info.Size != 3 {
			t.Errorf("Stat(%s) = %v, %v", name, info, err)
		}
		must(t, bound.Remove(in(name)))
	}
	if got := readFile(t, Default, filepath.Join(far, "file")); got != "far" {
		t.Errorf("the other file reads %q", got)
	}
	must(t, Held(lock))
	must(t, lock.Close())
}

// A name of which all links are resolved stays where it is when they are switched.
func TestResolve(t *testing.T) {
	top := Resolve(Default, t.TempDir())
	must(t, Default.MkdirAll(filepath.Join(top, "v1", "deep")))
	if err := os.Symlink("v1", filepath.Join(top, "current")); err != nil {
		t.Skip(err)
	}
	must(t, os.Symlink("nowhere", filepath.Join(top, "dangling")))
	fault := faultless(Default)
	for name, want := range map[string]string{
		"current":          "v1",
		"v1":               "v1",
		"current/deep":     "v1/deep",
		"current/new/dirs": "v1/new/dirs",
		"absent/new":       "absent/new",
		"dangling":         "dangling",
	} {
		for _, fsys := range []FS{Default, fault} {
			if got := Resolve(fsys, filepath.Join(top, name)); got != filepath.Join(top, want) {
				t.Errorf("Resolve(%s) = %s, want %s", name, got, want)
			}
		}
	}
	if got := Resolve(NewMem(), "a/../b"); got != "a/../b" {
		t.Errorf("Resolve of a Mem = %q", got)
	}
}
