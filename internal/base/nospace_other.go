//go:build !windows

package base

// isSystemNoSpace knows nothing: the system's errors have their common names.
func isSystemNoSpace(error) bool { return false }
