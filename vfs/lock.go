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
	path string      // absolute
	info os.FileInfo // of the lock file: the device and inode
	file *os.File    // open as long as the lock is held
	dir  *os.File    // the locked directory; nil if it is not locked
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
// lets a second owner in. The file has the owner's process id in decimal.
func (osFS) Lock(name string) (io.Closer, error) {
	path, err := filepath.Abs(name)
	if err != nil {
		return nil, err
	}
	held.Lock()
	defer held.Unlock()
	// Before the file is opened: closing it again would drop the lock where
	// it belongs to the process.
	if info, err := os.Stat(path); heldHere(path, info, err, true) {
		return nil, lockedError(name, os.Getpid())
	}
	return (&osLock{path: path}).keep(name, (*osLock).acquire)
}

// LockShared locks the file as it is.
func (osFS) LockShared(name string) (io.Closer, error) {
	path, err := filepath.Abs(name)
	if err != nil {
		return nil, err
	}
	held.Lock()
	defer held.Unlock()
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if heldHere(path, info, nil, false) {
		return nil, lockedError(name, os.Getpid())
	}
	return (&osLock{path: path, info: info, shared: true}).keep(name, (*osLock).acquireShared)
}

// keep runs acquire and enters the lock into the table. The caller holds held.
func (l *osLock) keep(name string, acquire func(l *osLock, name string) error) (io.Closer, error) {
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

// heldHere reports whether this process holds the lock file, by its path or,
// if statErr is nil, by its device and inode. Locks that are shared count if
// shared is set.
func heldHere(path string, info os.FileInfo, statErr error, shared bool) bool {
	for l := range held.locks {
		if l.shared && !shared {
			continue
		}
		if l.path == path || statErr == nil && os.SameFile(l.info, info) {
			return true
		}
	}
	return false
}

// acquire opens and locks the file, then claims it.
func (l *osLock) acquire(name string) (err error) {
	// Not by openFile: on windows that would let others delete the file.
	if l.file, err = os.OpenFile(l.path, os.O_RDWR|os.O_CREATE, filePerm); err != nil {
		return err
	}
	if l.info, err = l.file.Stat(); err != nil {
		return err
	}
	if heldHere(l.path, l.info, nil, true) {
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
	if err := l.guardDir(name); err != nil {
		return err
	}
	return l.writePid()
}

// acquireShared opens the file for reading and locks it. The number in it stays.
func (l *osLock) acquireShared(name string) (err error) {
	if l.file, err = os.Open(l.path); err != nil {
		return err
	}
	if busy, err := lockFileShared(l.file); err != nil {
		return &fs.PathError{Op: "lock", Path: name, Err: err}
	} else if busy {
		return lockedError(name, readPid(l.file))
	}
	return nil
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
