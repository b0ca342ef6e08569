//go:build !windows

package base

// isSystemNoSpace returns false, because this system
// has no error numbers of its own for a full disk.
func isSystemNoSpace(error) bool { return false }
