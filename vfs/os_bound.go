package vfs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// openDir opens the directory of the lock file, so that names can be looked up in it
// (lockedDir). It checks that it is the one with the locked file: the two were opened one
// after the other, by path.
func (l *osLock) openDir() (err error) {
	if l.at, err = openLockedDir(l); err != nil || l.at == nil {
		return err
	}
	d, err := l.at.open(".", os.O_RDONLY)
	if err != nil {
		return err
	}
	have, err := d.Stat()
	_ = d.Close() // opened for reading
	if err != nil {
		return err
	}
	want, err := os.Stat(filepath.Dir(l.path))
	if err == nil && !os.SameFile(have, want) {
		return l.movedError()
	}
	return errors.Join(err, l.Held())
}

// Held compares the file that the name stands for with the locked file. That one is open, so
// no other file can have its device and inode. If they differ, Held asks the system for those
// of the locked file again: some file systems give an open file another number.
func (l *osLock) Held() error {
	now, err := os.Stat(l.path)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return l.movedError()
	}
	if err != nil {
		return err
	}
	if os.SameFile(l.info, now) {
		return nil
	}
	info, err := l.file.Stat()
	if err == nil && !os.SameFile(info, now) {
		err = l.movedError()
	}
	return err
}

func (l *osLock) movedError() error { return fmt.Errorf("vfs: lock %s: %w", l.path, ErrMoved) }

// A boundFS is the system's file system for the owner of a lock: see Binder. Its methods look
// names of files in dir up in at, and pass all others to osFS.
type boundFS struct {
	osFS
	dir string // the path of at when it was locked
	at  *lockedDir
}

// Bind returns a boundFS. The directory stays open until the lock is closed.
func (o osFS) Bind(lock io.Closer) (FS, error) {
	l, ok := lock.(*osLock)
	if !ok || l.at == nil {
		return nil, ErrUnsupported
	}
	return &boundFS{osFS: o, dir: filepath.Dir(l.path), at: l.at}, nil
}

// base returns the name in the directory of a path, if the path is directly in dir.
func (b *boundFS) base(path string) (name string, ok bool) {
	dir, name := filepath.Split(path)
	return name, name != "" && filepath.Clean(dir) == b.dir
}

// open opens a file by its path, with flags of package os. It gives
// an error the form that package os gives it.
func (b *boundFS) open(path string, flag int) (*os.File, error) {
	name, ok := b.base(path)
	if filepath.Clean(path) == b.dir {
		name, ok = ".", true
	}
	if !ok {
		return openFile(path, flag)
	}
	f, err := b.at.open(name, flag)
	if err != nil {
		return nil, pathError("open", path, err)
	}
	return f, nil
}

// pathError returns an error of an operation in a directory as one of its path.
func pathError(op, path string, err error) error {
	var in *fs.PathError
	var link *os.LinkError
	if errors.As(err, &in) {
		err = in.Err
	} else if errors.As(err, &link) {
		err = link.Err
	}
	return &fs.PathError{Op: op, Path: path, Err: err}
}

func (b *boundFS) openOS(path string, flag, whence int, mapsReads bool) (File, error) {
	f, err := b.open(path, flag)
	if err != nil {
		return nil, err
	}
	return newOSFile(f, whence, mapsReads)
}

func (b *boundFS) Create(path string) (File, error) {
	return b.openOS(path, os.O_RDWR|os.O_CREATE|os.O_TRUNC, io.SeekStart, false)
}

func (b *boundFS) Open(path string) (File, error) {
	return b.openOS(path, os.O_RDONLY, io.SeekStart, b.mapsReads)
}

func (b *boundFS) OpenReadWrite(path string) (File, error) {
	return b.openOS(path, os.O_RDWR, io.SeekEnd, false)
}

// Rename between the directory and another one is not supported.
func (b *boundFS) Rename(oldpath, newpath string) error {
	oldname, from := b.base(oldpath)
	newname, to := b.base(newpath)
	if from != to {
		return pathError("rename", newpath, ErrUnsupported)
	}
	if !from {
		return b.osFS.Rename(oldpath, newpath)
	}
	if err := b.at.rename(oldname, newname); err != nil {
		return pathError("rename", newpath, err)
	}
	return nil
}

func (b *boundFS) Remove(path string) error {
	name, ok := b.base(path)
	if !ok {
		return b.osFS.Remove(path)
	}
	if err := b.at.remove(name); err != nil {
		return pathError("remove", path, err)
	}
	return nil
}

// Link can give a file of the directory a name elsewhere, which the system does by path. So
// Link checks afterwards that it was the file of this directory. A link to another file is
// removed again, and not supported: the caller can copy. Nor is a link into the directory.
func (b *boundFS) Link(oldpath, newpath string) error {
	_, from := b.base(oldpath)
	if _, to := b.base(newpath); to {
		return pathError("link", newpath, ErrUnsupported)
	}
	if !from {
		return b.osFS.Link(oldpath, newpath)
	}
	want, err := b.stat(oldpath)
	if err != nil {
		return err
	}
	if err := b.osFS.Link(oldpath, newpath); errors.Is(err, fs.ErrNotExist) {
		return pathError("link", oldpath, ErrUnsupported)
	} else if err != nil {
		return err
	}
	if have, err := os.Stat(newpath); err == nil && os.SameFile(want, have) {
		return nil
	}
	return errors.Join(pathError("link", newpath, ErrUnsupported), os.Remove(newpath))
}

func (b *boundFS) List(dir string) ([]string, error) {
	d, err := b.open(dir, os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	return listNames(d)
}

// stat describes a file of the directory. It opens it, which a file system must let a store do.
func (b *boundFS) stat(path string) (os.FileInfo, error) {
	f, err := b.open(path, os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer f.Close() // opened for reading
	return f.Stat()
}

func (b *boundFS) Stat(path string) (FileInfo, error) {
	if _, ok := b.base(path); !ok {
		return b.osFS.Stat(path)
	}
	info, err := b.stat(path)
	if err != nil {
		return FileInfo{}, pathError("stat", path, err)
	}
	return fileInfo(info), nil
}

func (b *boundFS) SyncDir(dir string) error {
	if filepath.Clean(dir) != b.dir {
		return b.osFS.SyncDir(dir)
	}
	d, err := b.open(dir, os.O_RDONLY)
	if err != nil {
		return err
	}
	return syncOpenDir(d)
}
