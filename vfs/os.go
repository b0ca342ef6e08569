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
var Default FS = osFS{mapsReads: true}

// Unmapped is Default for those who count: each read is a system call. Default copies
// small reads of some files from a mapping, which the system does not count.
var Unmapped FS = osFS{}

// osFS is the file system of the operating system. It has no state
// that changes: the locks of the process are in the table held.
type osFS struct{ mapsReads bool }

const (
	filePerm = 0o644 // before the umask
	dirPerm  = 0o755
)

// Create empties a file that exists already, and
// keeps its inode, so its other names are empty too.
func (osFS) Create(name string) (File, error) {
	return openOS(name, os.O_RDWR|os.O_CREATE|os.O_TRUNC, io.SeekStart, false)
}

func (o osFS) Open(name string) (File, error) {
	return openOS(name, os.O_RDONLY, io.SeekStart, o.mapsReads)
}

func (osFS) OpenReadWrite(name string) (File, error) {
	return openOS(name, os.O_RDWR, io.SeekEnd, false)
}

// Rename is atomic where the system's rename is: on unix, and on NTFS.
func (osFS) Rename(oldname, newname string) error {
	return rename(oldname, newname)
}

func (osFS) Remove(name string) error {
	return os.Remove(name)
}

func (osFS) Link(oldname, newname string) error {
	return os.Link(oldname, newname)
}

// MkdirAll creates the missing directories, and then syncs the parent of each, from
// the top down. Callers could not do that without knowing which of them are new.
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

// missingDirs returns dir and its parents, as far as they do not exist, the deepest first.
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

// List reads only the names. So even a directory of 100,000 files takes one pass.
func (osFS) List(dir string) ([]string, error) {
	d, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	return listNames(d)
}

// listNames returns the names in an open directory, and closes it.
func listNames(d *os.File) ([]string, error) {
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
	return fileInfo(info), nil
}

func fileInfo(info os.FileInfo) FileInfo {
	return FileInfo{Size: info.Size(), IsDir: info.IsDir(), ModTime: info.ModTime()}
}

// SyncDir calls fsync on the directory (os_posix.go, os_windows.go).
func (osFS) SyncDir(dir string) error {
	return syncDir(dir)
}
