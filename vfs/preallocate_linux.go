package vfs

import (
	"errors"
	"syscall"
)

// allocate reserves blocks as unwritten extents.
// They read as zeros although nothing was written.
func (f *osFile) allocate(size int64) error {
	err := f.control("fallocate", func(fd uintptr) error {
		return syscall.Fallocate(int(fd), 0, 0, size)
	})
	if errors.Is(err, syscall.EOPNOTSUPP) || errors.Is(err, syscall.ENOSYS) {
		return ErrUnsupported
	}
	return err
}
