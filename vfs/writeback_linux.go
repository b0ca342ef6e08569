//go:build !arm

package vfs

import (
	"errors"
	"syscall"
)

// syncFileRangeWrite is from linux/fs.h. The flags that wait are not
// used: they would take the error of a failed write from the next Sync.
const syncFileRangeWrite = 2

// startWriteBack calls sync_file_range. See StartWriteBack.
func (f *osFile) startWriteBack(off, n int64) error {
	err := f.control("sync_file_range", func(fd uintptr) error {
		return syscall.SyncFileRange(int(fd), off, n, syncFileRangeWrite)
	})
	if errors.Is(err, syscall.ENOSYS) || errors.Is(err, syscall.EPERM) {
		return ErrUnsupported // a sandbox may forbid the call
	}
	return err
}
