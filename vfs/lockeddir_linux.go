package vfs

import (
	"os"
	"path/filepath"
	"syscall"
)

// A lockedDir is the open directory of a lock. Names are looked up in it, wherever it is. They
// may be symbolic links. An os.Root could do the same, but follows no links to elsewhere, and
// adds 45 KB to a program.
type lockedDir struct {
	d    *os.File
	conn syscall.RawConn
}

func openLockedDir(l *osLock) (*lockedDir, error) {
	d, err := os.Open(filepath.Dir(l.path))
	if err != nil {
		return nil, err
	}
	conn, err := d.SyscallConn()
	if err != nil {
		_ = d.Close() // opened for reading
		return nil, err
	}
	return &lockedDir{d, conn}, nil
}

func (l *lockedDir) close() error { return l.d.Close() }

// do runs a call with the descriptor, and repeats it after an interruption.
func (l *lockedDir) do(call func(fd int) error) (err error) {
	cerr := l.conn.Control(func(fd uintptr) {
		for {
			if err = call(int(fd)); err != syscall.EINTR {
				return
			}
		}
	})
	if cerr != nil {
		return cerr
	}
	return err
}

func (l *lockedDir) open(name string, flag int) (f *os.File, err error) {
	err = l.do(func(fd int) error {
		fd, err := syscall.Openat(fd, name, flag|syscall.O_CLOEXEC|syscall.O_LARGEFILE, filePerm)
		if err == nil {
			f = os.NewFile(uintptr(fd), l.d.Name()+"/"+name)
		}
		return err
	})
	return f, err
}

func (l *lockedDir) rename(oldname, newname string) error {
	return l.do(func(fd int) error { return syscall.Renameat(fd, oldname, fd, newname) })
}

func (l *lockedDir) remove(name string) error {
	return l.do(func(fd int) error { return syscall.Unlinkat(fd, name) })
}
