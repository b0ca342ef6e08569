package vfs

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
	"time"
)

// openFile opens a file with FILE_SHARE_DELETE, which package os does not set.
// Without it, no table could be removed or renamed while a reader has it open.
func openFile(name string, flag int) (*os.File, error) {
	path, err := syscall.UTF16PtrFromString(name)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	access := uint32(syscall.GENERIC_READ)
	if flag&os.O_RDWR != 0 {
		access |= syscall.GENERIC_WRITE
	}
	h, err := syscall.CreateFile(path, access,
		syscall.FILE_SHARE_READ|syscall.FILE_SHARE_WRITE|syscall.FILE_SHARE_DELETE,
		nil, disposition(flag), syscall.FILE_ATTRIBUTE_NORMAL, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	return os.NewFile(uintptr(h), name), nil
}

// disposition returns the argument of CreateFile for a flag of package os.
func disposition(flag int) uint32 {
	switch {
	case flag&os.O_CREATE == 0:
		return syscall.OPEN_EXISTING
	case flag&os.O_TRUNC != 0:
		return syscall.CREATE_ALWAYS
	}
	return syscall.OPEN_ALWAYS
}

const (
	errorSharingViolation = syscall.Errno(32)
	renameTries           = 10
)

// rename tries again for up to half a second, because virus scanners and indexers
// open new files for a moment (one rename in 1,500 failed for dolt, #1811).
func rename(oldname, newname string) error {
	for try := 1; ; try++ {
		err := os.Rename(oldname, newname)
		busy := errors.Is(err, syscall.ERROR_ACCESS_DENIED) || errors.Is(err, errorSharingViolation)
		if !busy || try == renameTries {
			return err
		}
		time.Sleep(time.Duration(try) * 10 * time.Millisecond)
	}
}

// syncDir only checks that the directory exists. NTFS logs changes
// of names in order, and Windows has no call that waits for them.
func syncDir(dir string) error {
	_, err := os.Stat(dir)
	return err
}

func syncOpenDir(d *os.File) error { return d.Close() }
