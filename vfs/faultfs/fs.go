// Package faultfs makes chosen operations of a file system fail, so that tests see what
// a program does then: New takes a function that is asked before each operation. A failure may
// come before the operation, after it, or in the middle of a write (see Fault).
package faultfs

import (
	"errors"
	"io"
	"io/fs"
	"slices"
	"sync/atomic"

	"github.com/shaledb/shale/vfs"
)

// An InjectFunc decides whether an operation fails: it does if the returned
// error is not nil. n is the number of the operation, counted from 1 over all
// operations of the FS. Many goroutines may call it at the same time.
type InjectFunc func(op vfs.Op, name string, n int64) error

// A Fault is an error that an [InjectFunc] returns to choose how the operation
// fails. With another error, the operation fails before it does anything.
type Fault struct {
	// Err is the cause that the error of the operation wraps.
	Err error
	// Short lets the first half of a write happen.
	Short bool
	// After lets the operation happen and then fail. The caller does
	// not know whether it happened, as when an answer gets lost.
	After bool
}

// Error returns the text of Err.
func (f *Fault) Error() string { return f.Err.Error() }

// Unwrap returns Err, for errors.Is and errors.As.
func (f *Fault) Unwrap() error { return f.Err }

// An FS passes operations to another file system, and makes those
// fail that its [InjectFunc] chooses. The error wraps the injected one.
//
// If a Sync fails and the file is one of a vfs.Mem, its unsynced data is lost for good. A Close,
// Unmap or unlock that fails has happened all the same, as with the operating system's.
type FS struct {
	base vfs.FS
	*faults
}

// faults are what an FS shares with those that Bind returns.
type faults struct {
	inject atomic.Pointer[InjectFunc]
	n      atomic.Int64
	counts []atomic.Int64 // by operation
}

// New returns an FS over base. With a nil inject no operation fails.
func New(base vfs.FS, inject func(op vfs.Op, name string, n int64) error) *FS {
	f := &FS{base: base, faults: &faults{counts: make([]atomic.Int64, len(vfs.AllOps()))}}
	f.Inject(inject)
	return f
}

// Inject replaces the function. With nil no operation fails from now on.
func (f *FS) Inject(inject func(op vfs.Op, name string, n int64) error) {
	fn := InjectFunc(inject)
	if inject == nil {
		fn = func(vfs.Op, string, int64) error { return nil }
	}
	f.inject.Store(&fn)
}

// Ops returns the number of operations so far.
func (f *FS) Ops() int64 { return f.n.Load() }

// Count returns the number of operations of one kind so far.
func (f *FS) Count(op vfs.Op) int64 { return f.counts[op].Load() }

// FailAt returns a function with which one operation fails: the k-th of the given kinds,
// or of all kinds if none is given. It counts from 1, beginning with its first call.
func FailAt(k int64, err error, kinds ...vfs.Op) InjectFunc {
	return failWhen(err, func(i int64) bool { return i == k }, kinds)
}

// FailFrom is like [FailAt], but all operations after the k-th fail too.
func FailFrom(k int64, err error, kinds ...vfs.Op) InjectFunc {
	return failWhen(err, func(i int64) bool { return i >= k }, kinds)
}

// FullFrom behaves like a disk that becomes full. It counts the operations that
// need room. The k-th one fails, and if it is a write, half of its bytes are
// written. All later ones fail without effect. Writes through a mapping need no
// room, because the file is preallocated. err is syscall.ENOSPC or EDQUOT.
func FullFrom(k int64, err error) InjectFunc {
	var seen atomic.Int64
	return func(op vfs.Op, _ string, _ int64) error {
		if !slices.Contains(needRoom, op) {
			return nil
		}
		switch i := seen.Add(1); {
		case i < k:
			return nil
		case i == k:
			return &Fault{Err: err, Short: true}
		}
		return err
	}
}

// needRoom are the operations that fail on a full disk.
var needRoom = []vfs.Op{vfs.OpCreate, vfs.OpLink, vfs.OpMkdirAll, vfs.OpWrite, vfs.OpPreallocate}

// failWhen returns a function with which operations of
// the given kinds fail if when is true for their number.
func failWhen(err error, when func(i int64) bool, kinds []vfs.Op) InjectFunc {
	var seen atomic.Int64
	return func(op vfs.Op, _ string, _ int64) error {
		if len(kinds) > 0 && !slices.Contains(kinds, op) {
			return nil
		}
		if when(seen.Add(1)) {
			return err
		}
		return nil
	}
}

// next counts an operation and returns its fault, or nil if it does not fail. The
// error of the fault names the operation and the file, and wraps the injected error.
func (f *FS) next(op vfs.Op, name string) *Fault {
	f.counts[op].Add(1)
	err := (*f.inject.Load())(op, name, f.n.Add(1))
	if err == nil {
		return nil
	}
	var fault *Fault
	if !errors.As(err, &fault) {
		fault = &Fault{}
	}
	return &Fault{
		Err:   &fs.PathError{Op: op.String(), Path: name, Err: err},
		Short: fault.Short,
		After: fault.After,
	}
}

// do runs an operation and returns its error. If its fault
// says that it fails before it happens, do does not run it.
func (f *FS) do(op vfs.Op, name string, run func() error) error {
	fault := f.next(op, name)
	if fault != nil && !fault.After {
		return fault.Err
	}
	if err := run(); err != nil || fault == nil {
		return err
	}
	return fault.Err
}

// file runs an operation that opens a file, and wraps the file, so that its
// operations can fail too. If the file is open but the operation fails afterwards
// (Fault.After), file closes it: the caller got no file that it could close.
func (f *FS) file(op vfs.Op, name string, open func(string) (vfs.File, error)) (vfs.File, error) {
	var file vfs.File
	err := f.do(op, name, func() (err error) {
		file, err = open(name)
		return err
	})
	if err != nil {
		if file != nil {
			_ = file.Close() // it was opened, but the caller got an error instead
		}
		return nil, err
	}
	return &openFile{fs: f, file: file, name: name}, nil
}

// Create counts as OpCreate.
func (f *FS) Create(name string) (vfs.File, error) {
	return f.file(vfs.OpCreate, name, f.base.Create)
}

// Open counts as OpOpen.
func (f *FS) Open(name string) (vfs.File, error) {
	return f.file(vfs.OpOpen, name, f.base.Open)
}

// OpenReadWrite counts as OpOpenReadWrite.
func (f *FS) OpenReadWrite(name string) (vfs.File, error) {
	return f.file(vfs.OpOpenReadWrite, name, f.base.OpenReadWrite)
}

// Rename counts as OpRename, under the new name.
func (f *FS) Rename(oldname, newname string) error {
	return f.do(vfs.OpRename, newname, func() error { return f.base.Rename(oldname, newname) })
}

// Remove counts as OpRemove.
func (f *FS) Remove(name string) error {
	return f.do(vfs.OpRemove, name, func() error { return f.base.Remove(name) })
}

// Link counts as OpLink, under the new name.
func (f *FS) Link(oldname, newname string) error {
	return f.do(vfs.OpLink, newname, func() error { return f.base.Link(oldname, newname) })
}

// MkdirAll counts as OpMkdirAll.
func (f *FS) MkdirAll(dir string) error {
	return f.do(vfs.OpMkdirAll, dir, func() error { return f.base.MkdirAll(dir) })
}

// SyncDir counts as OpSyncDir.
func (f *FS) SyncDir(dir string) error {
	return f.do(vfs.OpSyncDir, dir, func() error { return f.base.SyncDir(dir) })
}

// List counts as OpList.
func (f *FS) List(dir string) (names []string, err error) {
	err = f.do(vfs.OpList, dir, func() (err error) {
		names, err = f.base.List(dir)
		return err
	})
	return names, err
}

// Stat counts as OpStat.
func (f *FS) Stat(name string) (info vfs.FileInfo, err error) {
	err = f.do(vfs.OpStat, name, func() (err error) {
		info, err = f.base.Stat(name)
		return err
	})
	return info, err
}

// Lock counts as OpLock, and Close of the lock as OpUnlock.
func (f *FS) Lock(name string) (io.Closer, error) {
	var lock io.Closer
	err := f.do(vfs.OpLock, name, func() (err error) {
		lock, err = f.base.Lock(name)
		return err
	})
	if err != nil {
		if lock != nil {
			_ = lock.Close() // happened, but the caller got an error instead
		}
		return nil, err
	}
	return &heldLock{f, lock, name}, nil
}

// LockShared counts as OpLockShared. If the file system
// below has no shared locks, it returns vfs.ErrUnsupported.
func (f *FS) LockShared(name string) (io.Closer, error) {
	base, ok := f.base.(vfs.SharedLocker)
	if !ok {
		return nil, vfs.ErrUnsupported
	}
	var lock io.Closer
	err := f.do(vfs.OpLockShared, name, func() (err error) {
		lock, err = base.LockShared(name)
		return err
	})
	if err != nil {
		if lock != nil {
			_ = lock.Close() // happened, but the caller got an error instead
		}
		return nil, err
	}
	return &heldLock{f, lock, name}, nil
}

// Abs returns what the file system below returns. It does not count as an operation.
func (f *FS) Abs(name string) (string, error) { return vfs.Abs(f.base, name) }

// Within returns what the file system below returns. It does not count as an operation.
func (f *FS) Within(name, dir string) (bool, error) { return vfs.Within(f.base, name, dir) }

// Resolve returns what the file system below returns. It does not count as an operation.
func (f *FS) Resolve(name string) string { return vfs.Resolve(f.base, name) }

// Bind returns an FS over the file system that the one
// below returns. The two count and inject together.
func (f *FS) Bind(lock io.Closer) (vfs.FS, error) {
	l, ok := lock.(*heldLock)
	if !ok {
		return nil, vfs.ErrUnsupported
	}
	base, err := vfs.Bind(f.base, l.lock)
	if err != nil {
		return nil, err
	}
	return &FS{base: base, faults: f.faults}, nil
}

// A heldLock is a lock that an FS has taken.
type heldLock struct {
	fs   *FS
	lock io.Closer
	name string
}

func (l *heldLock) Close() error {
	return l.fs.always(vfs.OpUnlock, l.name, l.lock.Close)
}

// Held counts as OpHeld.
func (l *heldLock) Held() error {
	return l.fs.do(vfs.OpHeld, l.name, func() error { return vfs.Held(l.lock) })
}

// always runs an operation in any case. If it has
// a fault, always returns the error afterwards.
func (f *FS) always(op vfs.Op, name string, run func() error) error {
	fault := f.next(op, name)
	if err := run(); err != nil || fault == nil {
		return err
	}
	return fault.Err
}
