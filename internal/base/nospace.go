package base

import (
	"errors"
	"syscall"
)

// IsNoSpace tells whether err says that the disk is full, or what a user may take of
// it: an error that passes when there is room again.
func IsNoSpace(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || isSystemNoSpace(err)
}
