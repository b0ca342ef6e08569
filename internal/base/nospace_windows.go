package base

import (
	"errors"
	"syscall"
)

// isSystemNoSpace reports whether err is
// ERROR_HANDLE_DISK_FULL (39) or ERROR_DISK_FULL (112).
func isSystemNoSpace(err error) bool {
	return errors.Is(err, syscall.Errno(39)) || errors.Is(err, syscall.Errno(112))
}
