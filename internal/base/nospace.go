package base

import (
	"errors"
	"syscall"
)

// IsNoSpace reports whether err says that the disk is full, or that a user's
// quota is used up. Such an error goes away when there is room again.
func IsNoSpace(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || isSystemNoSpace(err)
}
