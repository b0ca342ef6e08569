// Package guard keeps a store from changing a directory that it has not locked.
//
// The path of an open store can come to lead to another directory: somebody renames or removes
// the store's, restores a backup in its place, or mounts a volume over it. Another process then
// opens the store that is there, and gets its lock. Two things keep the first one from writing
// into that store. FS checks that the lock is still in its place before it creates, replaces or
// removes a file, and gives up for good if it is not. And all names are looked up in the directory
// that was locked (vfs.Bind), so that nothing happens to another one between the check and the act.
package guard

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"sync"
	"sync/atomic"

	"github.com/shaledb/shale/vfs"
)

// An FS is the file system of one store. Before Hold it passes all calls on.
// Operations outside of the store's directory are passed on in any case.
type FS struct {
	// Constant after Hold.
	vfs.FS             // as given to New, or bound to the directory
	given  vfs.FS      // as given to New
	dir    string      // of the store, cleaned
	lock   io.Closer   // nil: not held
	bound  bool        // an operation in dir can't meet another directory
	moved  func(error) // see New

	once sync.Once             // of the call of moved
	lost atomic.Pointer[error] // why nothing is changed any more; set once
}

// New returns the file system of the store in dir. It calls moved once, when it finds out that
// the directory is not the one that was locked, with the error that all operations get then.
func New(fsys vfs.FS, dir string, moved func(error)) *FS {
	return &FS{FS: fsys, given: fsys, dir: filepath.Clean(dir), moved: moved}
}

// Hold tells that lock, a lock on a file in the directory, is held. Requires: nobody else uses f.
func (f *FS) Hold(lock io.Closer) error {
	f.lock = lock
	switch bound, err := vfs.Bind(f.given, lock); {
	case err == nil:
		f.FS, f.bound = bound, true
	case !errors.Is(err, vfs.ErrUnsupported):
		return err
	}
	return f.Check()
}

// Check returns an error that wraps vfs.ErrMoved if the directory is not the one that was
// locked, or was not at an earlier call: a directory that comes back may have been changed by
// others. Where f could not find out, it returns nil if f is bound, because an operation then
// happens in the directory that was locked, or fails.
func (f *FS) Check() error {
	if err := f.lost.Load(); err != nil {
		return *err
	}
	if f.lock == nil {
		return nil
	}
	err := vfs.Held(f.lock)
	if err == nil || f.bound && !errors.Is(err, vfs.ErrMoved) {
		return nil
	}
	if !errors.Is(err, vfs.ErrMoved) {
		return err
	}
	err = fmt.Errorf("shale: %s was renamed, removed or replaced while the store was open; nothing more is written: "+
		"close the store, and open the one that is there now: %w", f.dir, vfs.ErrMoved)
	// Nobody gets the error before moved has returned: an operation that fails with it would report
	// a failure of its own.
	f.once.Do(func() {
		defer f.lost.Store(&err)
		f.moved(err)
	})
	return *f.lost.Load()
}

// Lost returns the error of Check if an earlier call has found it, or nil.
func (f *FS) Lost() error {
	if err := f.lost.Load(); err != nil {
		return *err
	}
	return nil
}

// allow returns why the files with these paths may not be changed, or nil.
func (f *FS) allow(paths ...string) error {
	for _, path := range paths {
		if filepath.Dir(path) == f.dir {
			return f.Check()
		}
	}
	return nil
}

// explain returns err, and with it the error of Check if that is why a file is not there.
func (f *FS) explain(err error, paths ...string) error {
	if errors.Is(err, fs.ErrNotExist) {
		if lost := f.allow(paths...); lost != nil {
			return fmt.Errorf("%w: %w", err, lost)
		}
	}
	return err
}

// Create makes a file, if the directory is the one that was locked.
func (f *FS) Create(path string) (vfs.File, error) {
	if err := f.allow(path); err != nil {
		return nil, err
	}
	file, err := f.FS.Create(path)
	return file, f.explain(err, path)
}

// OpenReadWrite opens a file for writing, if the directory is the one that was locked.
func (f *FS) OpenReadWrite(path string) (vfs.File, error) {
	if err := f.allow(path); err != nil {
		return nil, err
	}
	file, err := f.FS.OpenReadWrite(path)
	return file, f.explain(err, path)
}

// Rename moves a file, if the directory is the one that was locked.
func (f *FS) Rename(oldpath, newpath string) error {
	if err := f.allow(oldpath, newpath); err != nil {
		return err
	}
	return f.explain(f.FS.Rename(oldpath, newpath), oldpath, newpath)
}

// Remove deletes a file, if the directory is the one that was locked.
func (f *FS) Remove(path string) error {
	if err := f.allow(path); err != nil {
		return err
	}
	return f.explain(f.FS.Remove(path), path)
}

// Link checks a file of the directory that gets a name elsewhere, too: it may be another
// store's. If the file system is not bound, it may have become that meanwhile.
func (f *FS) Link(oldpath, newpath string) error {
	if err := f.allow(oldpath, newpath); err != nil {
		return err
	}
	if err := f.FS.Link(oldpath, newpath); err != nil || f.bound {
		return f.explain(err, oldpath, newpath)
	}
	if err := f.allow(oldpath); err != nil {
		return errors.Join(err, f.FS.Remove(newpath))
	}
	return nil
}

// Open opens no file of another directory.
func (f *FS) Open(path string) (vfs.File, error) {
	file, err := f.FS.Open(path)
	if err != nil || f.bound {
		return file, f.explain(err, path)
	}
	if err := f.allow(path); err != nil {
		_ = file.Close() // opened for reading
		return nil, err
	}
	return file, nil
}

// List returns the names in a directory. If it fails because the directory is another one, the error says so.
func (f *FS) List(dir string) ([]string, error) {
	names, err := f.FS.List(dir)
	return names, f.explain(err, filepath.Join(dir, "*"))
}

// SyncDir checks afterwards whether the names that are durable now are those of the store.
func (f *FS) SyncDir(dir string) error {
	in := filepath.Join(dir, "*")
	if err := f.FS.SyncDir(dir); err != nil {
		return f.explain(err, in)
	}
	return f.allow(in)
}

// Abs returns what the file system below returns.
func (f *FS) Abs(name string) (string, error) { return vfs.Abs(f.given, name) }

// Within returns what the file system below returns.
func (f *FS) Within(name, dir string) (bool, error) { return vfs.Within(f.given, name, dir) }
