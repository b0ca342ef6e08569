//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package vfs

import (
	"os"
	"path/filepath"
	"syscall"
)

// lockFile takes flock's lock, which belongs to the open file and goes with
// the process, however that ends. busy: somebody else has it.
func lockFile(f *os.File) (busy bool, err error) { return flock(f, syscall.LOCK_EX) }

// lockFileShared takes it together with others who share it. f may be open for
// reading only.
func lockFileShared(f *os.File) (busy bool, err error) { return flock(f, syscall.LOCK_SH) }

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

// guardDir locks the directory as well, by lock, to notice that someone deleted the
// lock file under its owner: then the file is new (has no process id), the
// directory has other files, and the directory is locked. A locked directory
// alone says nothing: the program may run under flock(1), and some file
// systems do not lock directories.
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

// dirGuardedHere reports whether it is this process that has d locked, for a
// lock file of another name.
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
