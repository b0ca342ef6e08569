//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package vfs

import (
	"os"
	"path/filepath"
	"syscall"
)

// lockFile takes a lock with flock. The lock belongs to the
// open file, and the system releases it when the process ends
// in any way. busy reports whether another process holds it.
func lockFile(f *os.File) (busy bool, err error) { return flock(f, syscall.LOCK_EX) }

// lockFileShared takes the same lock, shared with others. f may be open for reading only.
func lockFileShared(f *os.File) (busy bool, err error) { return flock(f, syscall.LOCK_SH) }

// flock takes a lock without waiting, and repeats the call after an interruption.
func flock(f *os.File, how int) (busy bool, err error) {
	conn, err := f.SyscallConn()
	if err != nil {
		return false, err
	}
	cerr := conn.Control(func(fd uintptr) {
		for {
			err = syscall.Flock(int(fd), how|syscall.LOCK_NB)
			if err != syscall.EINTR {
				return
			}
		}
	})
	if cerr != nil {
		return false, cerr
	}
	if err == syscall.EWOULDBLOCK {
		return true, nil
	}
	return false, err
}

// guardDir locks the directory too, in order to notice that somebody has deleted the
// lock file of an owner. In that case, three things are true: the lock file is new
// and has no process id, the directory has other files, and the directory is locked.
//
// That the directory is locked is not enough, because the program may run under
// flock(1). Some file systems do not lock directories. There guardDir notices nothing.
func (l *osLock) guardDir(name string, lock func(*os.File) (busy bool, err error)) error {
	dir := filepath.Dir(l.path)
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	if busy, err := lock(d); err == nil && !busy {
		l.dir = d
		return nil
	} else if err != nil || readPid(l.file) != 0 || dirGuardedHere(d) {
		return d.Close()
	}
	names, err := d.Readdirnames(2)
	if cerr := d.Close(); err == nil {
		err = cerr
	}
	if err == nil && len(names) > 1 {
		return lockedError(name, 0)
	}
	return err
}

// dirGuardedHere reports whether this process has locked
// the directory d, for a lock file with another name.
func dirGuardedHere(d *os.File) bool {
	info, err := d.Stat()
	if err != nil {
		return false
	}
	for l := range held.locks {
		if l.dir == nil {
			continue
		}
		if have, err := l.dir.Stat(); err == nil && os.SameFile(have, info) {
			return true
		}
	}
	return false
}
