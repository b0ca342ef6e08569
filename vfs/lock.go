package vfs

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
)

// osLock is a held lock. The system's lock (lock_unix.go, lock_windows.go)
// keeps other processes out; the table held keeps out the rest of this one,
// also where the system's locks belong to the process (flock over NFS) and
// where the lock file was deleted or is reached by another path.
type osLock struct {
	path   string      // absolute
	info   os.FileInfo // of the lock file: the device and inode
	parent os.FileInfo // of its directory
	file   *os.File    // open as long as the lock is held
	dir    *os.File    // the locked directory; nil if it is not locked
	// shared: with others, by LockShared.
	shared bool
}

// held are the locks of this process. Its mutex is held while files are
// opened and locked, so that raced calls come one after the other.
var held struct {
	sync.Mutex
	locks map[*osLock]bool
}

// Lock takes the lock on a file that is never deleted: whoever deletes it
// lets a second owner in, where directories can't be locked, and whoever puts a
// copy in its place does so everywhere. The file has the owner's process id in
// decimal.
func (osFS) Lock(name string) (io.Closer, error) {
	return lock(name, &osLock{}, (*osLock).acquire)
}

// LockShared locks the file as it is.
func (osFS) LockShared(name string) (io.Closer, error) {
	return lock(name, &osLock{shared: true}, (*osLock).acquireShared)
}

// lock runs acquire, unless the lock is held here, and enters l into the table.
func lock(name string, l *osLock, acquire func(l *osLock, name string) error) (io.Closer, error) {
	var err error
	if l.path, err = filepath.Abs(name); err != nil {
		return nil, err
	}
	held.Lock()
	defer held.Unlock()
	// Before the file is opened: closing it again would drop the lock where
	// it belongs to the process.
	l.info, _ = os.Stat(l.path)                 // nil if it is not there
	l.parent, _ = os.Stat(filepath.Dir(l.path)) // likewise: acquire will say so
	if l.heldHere() {
		return nil, lockedError(name, os.Getpid())
	}
	if err := acquire(l, name); err != nil {
		_ = l.closeFiles() // the error of acquire is the one to report
		return nil, err
	}
	if held.locks == nil {
		held.locks = make(map[*osLock]bool)
	}
	held.locks[l] = true
	return l, nil
}

// heldHere reports whether this process holds the lock: by the same path, by the
// same device and inode, or, if the lock file was deleted under its owner and l
// comes by another path, by the same name in the same directory. Shared locks
// do not keep each other out.
func (l *osLock) heldHere() bool {
	for o := range held.locks {
		if o.shared && l.shared {
			continue
		}
		if o.path == l.path || os.SameFile(o.info, l.info) ||
			filepath.Base(o.path) == filepath.Base(l.path) && os.SameFile(o.parent, l.parent) {
			return true
		}
	}
	return false
}

// acquire opens and locks the file, then claims it.
func (l *osLock) acquire(name string) (err error) {
	created := l.info == nil
	// Not by openFile: on windows that would let others delete the file.
	if l.file, err = os.OpenFile(l.path, os.O_RDWR|os.O_CREATE, filePerm); err != nil {
		return err
	}
	if l.info, err = l.file.Stat(); err != nil {
		return err
	}
	if l.heldHere() {
		return lockedError(name, os.Getpid())
	}
	if busy, err := lockFile(l.file); err != nil {
		return &fs.PathError{Op: "lock", Path: name, Err: err}
	} else if busy {
		return lockedError(name, readPid(l.file))
	}
	// Between open and lock the file may have been deleted and made anew.
	if now, err := os.Stat(l.path); err != nil || !os.SameFile(l.info, now) {
		return lockedError(name, 0)
	}
	if err := l.guardDir(name, lockFile); err != nil {
		return err
	}
	if err := l.writePid(); err != nil {
		if created {
			_ = os.Remove(l.path) // as it was; still locked, so nobody else has it
		}
		return err
	}
	return nil
}

// acquireShared opens the file for reading and locks it. The number in it stays.
func (l *osLock) acquireShared(name string) (err error) {
	if l.file, err = os.Open(l.path); err != nil {
		return err
	}
	if l.info, err = l.file.Stat(); err != nil {
		return err
	}
	if busy, err := lockFileShared(l.file); err != nil {
		return &fs.PathError{Op: "lock", Path: name, Err: err}
	} else if busy {
		return lockedError(name, readPid(l.file))
	}
	return l.guardDir(name, lockFileShared)
}

// writePid writes the new number before it cuts the rest of an older one:
// others read the file at any time.
func (l *osLock) writePid() error {
	pid := strconv.Itoa(os.Getpid()) + "\n"
	if _, err := l.file.WriteAt([]byte(pid), 0); err != nil {
		return err
	}
	return l.file.Truncate(int64(len(pid)))
}

// readPid returns the process id in a lock file, or 0.
func readPid(f *os.File) int {
	var buf [20]byte
	n, _ := f.ReadAt(buf[:], 0) // an unreadable file is one without a number
	line, _, _ := strings.Cut(string(buf[:n]), "\n")
	pid, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil || pid < 0 {
		return 0
	}
	return pid
}

// lockedError names the owner; pid 0 is an unknown one.
func lockedError(name string, pid int) error {
	if pid == 0 {
		return fmt.Errorf("vfs: lock %s: owned by another process: %w", name, ErrLocked)
	}
	return fmt.Errorf("vfs: lock %s: owned by process %d: %w", name, pid, ErrLocked)
}

// Close releases the lock. The process id stays in the file: guardDir takes
// a file without one for a new file.
func (l *osLock) Close() error {
	held.Lock()
	defer held.Unlock()
	if !held.locks[l] {
		return &fs.PathError{Op: "unlock", Path: l.path, Err: fs.ErrClosed}
	}
	delete(held.locks, l)
	return l.closeFiles()
}

// closeFiles closes what is open, which releases the system's locks.
func (l *osLock) closeFiles() error {
	var first error
	for _, f := range []*os.File{l.dir, l.file} {
		if f == nil {
			continue
		}
		if err := f.Close(); first == nil {
			first = err
		}
	}
	return first
}
