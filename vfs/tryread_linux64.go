//go:build linux && !android && (amd64 || arm64 || loong64 || riscv64)

package vfs

import (
	"io"
	"io/fs"
	"runtime"
	"sync"
	"syscall"
	"unsafe"
)

// These are from linux/fs.h and linux/fadvise.h.
const (
	rwfNowait    = 8
	fadvWillNeed = 3
)

// sysPreadv2 returns the number of the call preadv2, which package syscall does not have on
// every processor.
func sysPreadv2() uintptr {
	if runtime.GOARCH == "amd64" {
		return 327
	}
	return 286 // the number of all newer processors
}

// A tryCall is a system call of TryReadAt or WillNeed. They are pooled with the functions that
// RawConn.Control calls, which would be allocated for each call otherwise.
type tryCall struct {
	p            []byte
	off, n       int64
	err          error
	read, advise func(fd uintptr)
}

var tryCalls = sync.Pool{New: func() any {
	c := new(tryCall)
	c.read, c.advise = c.preadNowait, c.fadvise
	return c
}}

// TryReadAt implements TryReader by preadv2 with RWF_NOWAIT, which costs what a read does, or by
// a copy from memory.
func (f *osFile) TryReadAt(p []byte, off int64) error {
	switch {
	case f.noTry.Load():
		return ErrUnsupported
	case len(p) == 0:
		return nil
	case off < 0: // -1 would be the file's own position
		return f.pathError("read", fs.ErrInvalid)
	case f.mapsReads && f.mapped.read(f, p, off):
		return nil
	}
	err := f.tryCall(p, off)
	if f.mapsReads && err == nil {
		f.mapped.note(f, off, len(p))
	}
	return err
}

// tryCall is TryReadAt by a call.
func (f *osFile) tryCall(p []byte, off int64) error {
	c := tryCalls.Get().(*tryCall)
	c.p, c.off = p, off
	if err := f.conn.Control(c.read); err != nil { // an error of package poll, which errors.Is does not know
		c.err = fs.ErrClosed
	}
	err := c.err
	c.p, c.err = nil, nil
	tryCalls.Put(c)
	switch err {
	case nil, ErrWouldWait, io.ErrUnexpectedEOF:
		return err
	case syscall.EOPNOTSUPP, syscall.ENOSYS, syscall.EPERM: // EPERM: a sandbox may forbid the call
		f.noTry.Store(true)
		return ErrUnsupported
	}
	return f.pathError("read", err)
}

// preadNowait makes the call. It is a raw one, which does not tell the scheduler, because it does not
// wait for the device: on a few kilobytes it takes about a microsecond.
func (c *tryCall) preadNowait(fd uintptr) {
	c.err = nil
	for p, off := c.p, c.off; ; {
		v := syscall.Iovec{Base: &p[0]}
		v.SetLen(len(p))
		n, _, e := syscall.RawSyscall6(sysPreadv2(), fd, uintptr(unsafe.Pointer(&v)), 1, uintptr(off), 0, rwfNowait)
		switch {
		case e == syscall.EINTR:
		case e == syscall.EAGAIN:
			c.err = ErrWouldWait
			return
		case e != 0:
			c.err = e
			return
		case n == 0:
			c.err = io.ErrUnexpectedEOF
			return
		case int(n) == len(p):
			return
		default: // the rest is not in memory, or the file ends: the next call tells
			p, off = p[n:], off+int64(n)
		}
	}
}

// WillNeed implements TryReader.
func (f *osFile) WillNeed(off, n int64) {
	c := tryCalls.Get().(*tryCall)
	c.off, c.n = off, n
	_ = f.conn.Control(c.advise) // advice: the read that follows reports a closed file
	tryCalls.Put(c)
}

// fadvise makes the call, and drops its error, because it is advice.
func (c *tryCall) fadvise(fd uintptr) {
	_, _, _ = syscall.Syscall6(syscall.SYS_FADVISE64, fd, uintptr(c.off), uintptr(c.n), fadvWillNeed, 0, 0)
}
