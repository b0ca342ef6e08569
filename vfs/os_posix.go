//go:build !windows

package vfs

import (
	"errors"
	"os"
	"syscall"
)

func openFile(name string, flag int) (*os.File, error) {
	return os.OpenFile(name, flag, filePerm)
}

func rename(oldname, newname string) error {
	return os.Rename(oldname, newname)
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return syncOpenDir(d)
}

// syncOpenDir syncs an open directory, and closes it. It ignores EINVAL: file systems return
// it that do not know the operation and order their metadata in their own way.
func syncOpenDir(d *os.File) error {
	err := d.Sync()
	if errors.Is(err, syscall.EINVAL) {
		err = nil
	}
	if cerr := d.Close(); err == nil {
		err = cerr
	}
	return err
}
