package vfs

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"sync/atomic"
	"syscall"
)

// osFile is an open file of the operating system.
type osFile struct {
	f *os.File
	// conn runs system calls on the descriptor while it is certainly open. With
	// f.Fd, a concurrent Close could free the number, and another file could get it.
	conn syscall.RawConn
	// noTry says that the system refused a TryReadAt: the call, or its flag for this file system.
	noTry atomic.Bool
	// mapped serves small reads, if mapsReads is set. The file is open for reading only then.
	mapped    mappedReads
	mapsReads bool
}

// openOS opens a file. whence puts its write position at the start or at the end.
// WriteAt and ReadAt do not depend on that position, and only Write moves it.
func openOS(name string, flag, whence int, mapsReads bool) (File, error) {
	f, err := openFile(name, flag)
	if err != nil {
		return nil, err
	}
	return newOSFile(f, whence, mapsReads)
}

// newOSFile makes a File of f, or closes it.
func newOSFile(f *os.File, whence int, mapsReads bool) (File, error) {
	conn, err := f.SyscallConn()
	if err == nil {
		_, err = f.Seek(0, whence)
	}
	if err != nil {
		_ = f.Close() // unused so far
		return nil, err
	}
	return &osFile{f: f, conn: conn, mapsReads: mapsReads}, nil
}

// The simple operations are those of package os.
func (f *osFile) WriteAt(p []byte, off int64) (int, error) { return f.f.WriteAt(p, off) }
func (f *osFile) Write(p []byte) (int, error)              { return f.f.Write(p) }
func (f *osFile) Truncate(size int64) error                { return f.f.Truncate(size) }

// ReadAt reads by a call, or copies from memory: see mappedReads.
func (f *osFile) ReadAt(p []byte, off int64) (int, error) {
	if f.mapsReads && f.mapped.read(f, p, off) {
		return len(p), nil
	}
	n, err := f.f.ReadAt(p, off)
	if f.mapsReads && err == nil {
		f.mapped.note(f, off, n)
	}
	return n, err
}

// Close closes the file. The copies that are under way end well.
func (f *osFile) Close() error {
	err := f.f.Close()
	f.mapped.stop()
	return err
}

// Sync returns the first error unchanged and never tries again:
// the kernel reports a failed write-back once and drops the pages.
func (f *osFile) Sync() error {
	return f.syncData()
}

// Size asks the system, because another descriptor may have changed the size.
func (f *osFile) Size() (int64, error) {
	info, err := f.f.Stat()
	if err != nil {
		// Of a closed file, Windows says that the handle is invalid.
		if _, closed := f.f.Seek(0, io.SeekCurrent); errors.Is(closed, fs.ErrClosed) {
			return 0, f.pathError("size", fs.ErrClosed)
		}
		return 0, err
	}
	return info.Size(), nil
}

// Preallocate reserves blocks and makes the file size bytes long, if it is shorter.
// If there is not enough room, it gives back the blocks that it got: the system may
// have reserved a part of them, and made the file longer, before it failed.
func (f *osFile) Preallocate(size int64) error {
	if size <= 0 {
		return f.pathError("preallocate", fs.ErrInvalid)
	}
	old, err := f.Size()
	if err != nil {
		return err
	}
	err = f.allocate(size)
	if err != nil && !errors.Is(err, ErrUnsupported) && old < size {
		_ = f.f.Truncate(old) // if this fails too, err is still the error to report
	}
	return err
}

// control runs fn with the descriptor, and repeats it after an interruption.
func (f *osFile) control(op string, fn func(fd uintptr) error) error {
	var err error
	cerr := f.conn.Control(func(fd uintptr) {
		for {
			if err = fn(fd); err != syscall.EINTR {
				return
			}
		}
	})
	if cerr != nil { // an error of package poll, which errors.Is does not know
		return f.pathError(op, fs.ErrClosed)
	}
	if err != nil {
		return f.pathError(op, err)
	}
	return nil
}

// pathError adds the operation and the file's name to err.
func (f *osFile) pathError(op string, err error) error {
	return &fs.PathError{Op: op, Path: f.f.Name(), Err: err}
}
