package vfs

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
)

// Default is the operating system's file system. Errors are those of package
// os, so errors.Is(err, fs.ErrNotExist) and errors.Is(err, syscall.ENOSPC) work.
var Default FS = osFS{}

// osFS has no state: locks, which are the process's, live in the table of
// lock.go.
type osFS struct{}

const (
	filePerm = 0o644 // before the umask
	dirPerm  = 0o755
)

// Create keeps the inode of a file that is there: its links are emptied too.
func (osFS) Create(name string) (File, error) {
	return openOS(name, os.O_RDWR|os.O_CREATE|os.O_TRUNC, io.SeekStart)
}

func (osFS) Open(name string) (File, error) {
	return openOS(name, os.O_RDONLY, io.SeekStart)
}

func (osFS) OpenReadWrite(name string) (File, error) {
	return openOS(name, os.O_RDWR, io.SeekEnd)
}

// Rename is atomic where the system's is: on unix, and on NTFS.
func (osFS) Rename(oldname, newname string) error {
	return rename(oldname, newname)
}

func (osFS) Remove(name string) error {
	return os.Remove(name)
}

func (osFS) Link(oldname, newname string) error {
	return os.Link(oldname, newname)
}

// MkdirAll syncs the parent of each directory that it makes, from the top
// down: callers would have to know which of them are new.
func (osFS) MkdirAll(dir string) error {
	missing := missingDirs(dir)
	if err := os.MkdirAll(dir, dirPerm); err != nil {
		return err
	}
	for i := len(missing) - 1; i >= 0; i-- {
		if err := syncDir(filepath.Dir(missing[i])); err != nil {
			return err
		}
	}
	return nil
}

// missingDirs returns dir and those of its parents that do not exist, the
// deepest first.
func missingDirs(dir string) []string {
	var missing []string
	for d := filepath.Clean(dir); ; d = filepath.Dir(d) {
		if _, err := os.Stat(d); !errors.Is(err, fs.ErrNotExist) {
			return missing
		}
		missing = append(missing, d)
		if filepath.Dir(d) == d {
			return missing
		}
	}
}

// List does not look at the files: a directory of 100,000 costs one pass.
func (osFS) List(dir string) ([]string, error) {
	d, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	names, err := d.Readdirnames(-1)
	if cerr := d.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return nil, err
	}
	sort.Strings(names)
	return names, nil
}

func (osFS) Stat(name string) (FileInfo, error) {
	info, err := os.Stat(name)
	if err != nil {
		return FileInfo{}, err
	}
	return FileInfo{Size: info.Size(), IsDir: info.IsDir(), ModTime: info.ModTime()}, nil
}

// SyncDir is fsync on the directory (os_posix.go, os_windows.go).
func (osFS) SyncDir(dir string) error {
	return syncDir(dir)
}
