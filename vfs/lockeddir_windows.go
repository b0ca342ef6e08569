package vfs

import "os"

// A lockedDir is not needed on Windows: a directory can't be renamed or removed while a file
// in it is open, as that of the lock is.
type lockedDir struct{}

func openLockedDir(*osLock) (*lockedDir, error) { return nil, nil }

func (*lockedDir) close() error                       { return nil }
func (*lockedDir) open(string, int) (*os.File, error) { return nil, ErrUnsupported }
func (*lockedDir) rename(string, string) error        { return ErrUnsupported }
func (*lockedDir) remove(string) error                { return ErrUnsupported }
