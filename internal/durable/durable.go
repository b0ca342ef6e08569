// Package durable makes files whose bytes are durable. Their names are not: the caller syncs the directory.
package durable

import (
	"errors"
	"io"
	"io/fs"

	"github.com/shaledb/shale/vfs"
)

// Write makes a file with the content b.
func Write(fsys vfs.FS, name string, b []byte) error {
	f, err := fsys.Create(name)
	if err != nil {
		return err
	}
	n, err := f.Write(b)
	if err == nil && n < len(b) {
		err = io.ErrShortWrite
	}
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// Copy copies a file.
func Copy(fsys vfs.FS, from, to string) error {
	src, err := fsys.Open(from)
	if err != nil {
		return err
	}
	defer src.Close() // opened for reading
	size, err := src.Size()
	if err != nil {
		return err
	}
	dst, err := fsys.Create(to)
	if err != nil {
		return err
	}
	if _, err = io.Copy(dst, io.NewSectionReader(src, 0, size)); err == nil {
		err = dst.Sync()
	}
	return errors.Join(err, dst.Close())
}

// LinkOrCopy gives a file that never changes a second name, or copies it where that can't be done. A copy is of no
// use if the file is missing or the name is taken: that error is returned.
func LinkOrCopy(fsys vfs.FS, from, to string) error {
	err := fsys.Link(from, to)
	if err == nil || errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrExist) {
		return err
	}
	// The link may have been made although the call failed. Then to is the same file, and to create it would empty
	// that. So the name is removed first.
	if err := fsys.Remove(to); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return Copy(fsys, from, to)
}
