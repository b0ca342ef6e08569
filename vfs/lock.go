package vfs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
)

// An osLock is a lock that this process holds. The lock of the operating system
// (lock_unix.go, lock_windows.go) keeps other processes out. The table held keeps out
// others in this process. It is also needed where the system's locks belong to the process
// (flock over NFS), and where the lock file was deleted or is reached by another path.
type osLock struct {
	path   string      // absolute
	info   os.FileInfo // of the lock file: the device and inode
	parent os.FileInfo // of the lock file's directory
	file   *os.File    // open as long as the lock is held
	at     *lockedDir  // the directory, for Bind; nil if the lock is shared, and on Windows
	dir    *os.File    // the directory, if it is locked too; nil if it is not
	// shared says that it was taken by LockShared.
	shared bool
}

// held has the locks of this process. Its mutex is held while files are
// opened and locked, so that concurrent calls come one after the other.
var held struct {
	sync.Mutex
	locks map[*osLock]bool
}

// Lock takes the lock on a file that nobody may delete. If it is deleted, a second owner
// can get the lock where directories can't be locked. If it is replaced by a copy, that
// is possible everywhere, and also if its directory is renamed or replaced. The first
// owner notices with Held. The file contains the owner's process id in decimal.
func (osFS) Lock(name string) (io.Closer, error) {
	return lock(name, &osLock{}, (*osLock).acquire)
}

// LockShared takes the shared lock and does not change the file.
func (osFS) LockShared(name string) (io.Closer, error) {
	return lock(name, &osLock{shared: true}, (*osLock).acquireShared)
}

// lock takes a lock with acquire and adds l to the
// table, unless this process holds the lock already.
func lock(name string, l *osLock, acquire func(l *osLock, name string) error) (io.Closer, error) {
	var err error
	if l.path, err = filepath.Abs(name); err != nil {
		return nil, err
	}
	held.Lock()
	defer held.Unlock()
	// This check comes before the file is opened. Where locks belong to the process,
	// to close the file again would release the lock that this process holds.
	l.info, _ = os.Stat(l.path)                 // nil if the file does not exist
	l.parent, _ = os.Stat(filepath.Dir(l.path)) // likewise: acquire then returns the error
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

// heldHere reports whether this process holds the lock already. It compares
// the device and inode. It also compares the name and the directory, for the
// case that the owner's lock file was deleted or replaced. The path is not
// compared: it may lead to another directory since the owner took its lock.
// Shared locks do not keep each other out.
func (l *osLock) heldHere() bool {
	for o := range held.locks {
		if o.shared && l.shared {
			continue
		}
		if os.SameFile(o.info, l.info) ||
			filepath.Base(o.path) == filepath.Base(l.path) && os.SameFile(o.parent, l.parent) {
			return true
		}
	}
	return false
}

// acquire takes the exclusive lock in these steps. Requires: held is locked.
//
//  1. It opens the file, and creates it if needed.
//  2. It compares the file with the locks of this process
//     once more, now by device and inode of the open file.
//  3. It takes the system's lock on the file.
//  4. It checks that the name still stands for the locked file.
//  5. It opens the directory (openDir), for Bind.
//  6. It locks the directory (guardDir), which reads the process id of an earlier owner.
//  7. It writes the process id. This comes last, because guardDir must see the old one.
//
// If a step fails, lock closes the files, which releases what was taken.
func (l *osLock) acquire(name string) (err error) {
	created := l.info == nil
	// openFile is not used, because on windows it would let others delete the file.
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
	// The file may have been deleted and created again between open
	// and lock. Then another process may have locked the new file.
	if now, err := os.Stat(l.path); err != nil || !os.SameFile(l.info, now) {
		return lockedError(name, 0)
	}
	if err := l.openDir(); errors.Is(err, ErrMoved) {
		return lockedError(name, 0) // likewise
	} else if err != nil {
		return err
	}
	if err := l.guardDir(name, lockFile); err != nil {
		return err
	}
	if err := l.writePid(); err != nil {
		if created {
			l.removeFile() // as before; nobody else has the file, because it is still locked
		}
		return err
	}
	return nil
}

// removeFile removes the lock file that acquire has made.
func (l *osLock) removeFile() {
	if l.at != nil {
		_ = l.at.remove(filepath.Base(l.path)) // acquire has an error to report
	} else {
		_ = os.Remove(l.path)
	}
}

// acquireShared opens the file for reading and locks it.
// The process id in it stays. Requires: held is locked.
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

// writePid writes the process id first and then cuts off the rest of an older
// one. So others, who may read the file at any time, always find a number.
func (l *osLock) writePid() error {
	pid := strconv.Itoa(os.Getpid()) + "\n"
	if _, err := l.file.WriteAt([]byte(pid), 0); err != nil {
		return err
	}
	return l.file.Truncate(int64(len(pid)))
}

// readPid returns the process id in a lock file, or 0 if there is none.
func readPid(f *os.File) int {
	var buf [20]byte
	n, _ := f.ReadAt(buf[:], 0) // an unreadable file counts as one without a number
	line, _, _ := strings.Cut(string(buf[:n]), "\n")
	pid, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil || pid < 0 {
		return 0
	}
	return pid
}

// lockedError returns an error that names the owner.
// A pid of 0 means that the owner is unknown.
func lockedError(name string, pid int) error {
	if pid == 0 {
		return fmt.Errorf("vfs: lock %s: owned by another process: %w", name, ErrLocked)
	}
	return fmt.Errorf("vfs: lock %s: owned by process %d: %w", name, pid, ErrLocked)
}

// Close releases the lock. The process id stays in the file,
// because guardDir takes a file without one for a new file.
func (l *osLock) Close() error {
	held.Lock()
	defer held.Unlock()
	if !held.locks[l] {
		return &fs.PathError{Op: "unlock", Path: l.path, Err: fs.ErrClosed}
	}
	delete(held.locks, l)
	return l.closeFiles()
}

// closeFiles closes the files that are open, and so releases the system's locks.
func (l *osLock) closeFiles() error {
	var first error
	if l.at != nil {
		first = l.at.close()
	}
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
