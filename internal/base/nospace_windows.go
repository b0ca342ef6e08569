package base

import (
	"errors"
	"syscall"
)

// isSystemNoSpace knows ERROR_HANDLE_DISK_FULL and ERROR_DISK_FULL.
func isSystemNoSpace(err error) bool {
	return errors.Is(err, syscall.Errno(39)) || errors.Is(err, syscall.Errno(112))
}
