package vfs

import (
	"os"
	"syscall"
	"unsafe"
)

var lockFileEx = syscall.NewLazyDLL("kernel32.dll").NewProc("LockFileEx")

const (
	lockfileFailImmediately = 1
	lockfileExclusiveLock   = 2
	errorLockViolation      = syscall.Errno(33)
)

// lockFile locks one byte far after the process id, because locks
// of Windows are mandatory, and others have to read the process
// id. busy reports whether another process holds the lock.
func lockFile(f *os.File) (busy bool, err error) {
	return lockByte(f, lockfileExclusiveLock|lockfileFailImmediately)
}

// lockFileShared takes the same lock, shared with others.
func lockFileShared(f *os.File) (busy bool, err error) {
	return lockByte(f, lockfileFailImmediately)
}

// lockByte takes a lock on the byte, without waiting.
func lockByte(f *os.File, flags uintptr) (busy bool, err error) {
	conn, err := f.SyscallConn()
	if err != nil {
		return false, err
	}
	at := syscall.Overlapped{OffsetHigh: 1 << 30}
	cerr := conn.Control(func(fd uintptr) {
		ok, _, e := lockFileEx.Call(fd, flags, 0, 1, 0, uintptr(unsafe.Pointer(&at)))
		if ok == 0 {
			err = e
		}
	})
	if cerr != nil {
		return false, cerr
	}
	if err == errorLockViolation || err == syscall.ERROR_IO_PENDING {
		return true, nil
	}
	return false, err
}

// guardDir does nothing: nobody can delete or replace a locked file while its handle is open.
func (l *osLock) guardDir(string, func(*os.File) (bool, error)) error { return nil }
