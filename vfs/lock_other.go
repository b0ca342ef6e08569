//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd || windows)

package vfs

import "os"

// lockFile does nothing, because there are no locks on this system.
// Only others in the same process are kept out, by the table held.
func lockFile(*os.File) (busy bool, err error) { return false, nil }

func lockFileShared(*os.File) (busy bool, err error) { return false, nil }

func (l *osLock) guardDir(string, func(*os.File) (bool, error)) error { return nil }
