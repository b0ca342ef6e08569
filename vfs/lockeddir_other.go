//go:build !linux && !windows

package vfs

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// A lockedDir is the open directory of a lock. Names are looked up in it, wherever it is. An
// os.Root follows no symbolic link to elsewhere. A file that is one can be read by path, as
// long as that leads to the directory.
type lockedDir struct {
	root *os.Root
	lock *osLock
}

func openLockedDir(l *osLock) (*lockedDir, error) {
	root, err := os.OpenRoot(filepath.Dir(l.path))
	if err != nil {
		return nil, err
	}
	return &lockedDir{root, l}, nil
}

func (l *lockedDir) close() error { return l.root.Close() }

func (l *lockedDir) open(name string, flag int) (*os.File, error) {
	f, err := l.root.OpenFile(name, flag, filePerm)
	if err == nil || flag != os.O_RDONLY || errors.Is(err, fs.ErrNotExist) {
		return f, err
	}
	if info, lerr := l.root.Lstat(name); lerr != nil || info.Mode()&fs.ModeSymlink == 0 {
		return nil, err
	}
	if f, err = os.Open(l.root.Name() + "/" + name); err != nil {
		return nil, err
	}
	if err := l.lock.Held(); err != nil {
		_ = f.Close() // opened for reading
		return nil, err
	}
	return f, nil
}

func (l *lockedDir) rename(oldname, newname string) error { return l.root.Rename(oldname, newname) }
func (l *lockedDir) remove(name string) error             { return l.root.Remove(name) }
