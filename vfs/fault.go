package vfs

import (
	"errors"
	"io"
	"io/fs"
	"slices"
	"sync/atomic"
)

// An InjectFunc decides whether an operation fails: it does if the returned
// error is not nil. n is the number of the operation, counted from 1 over all
// operations of the FaultFS. Many goroutines may call it at the same time.
type InjectFunc func(op Op, name string, n int64) error

// A Fault is an error that an InjectFunc returns to choose how the operation
// fails. With another error, the operation fails before it does anything.
type Fault struct {
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

// A FaultFS passes operations to another file system, and makes those
// fail that its InjectFunc chooses. The error wraps the injected one.
//
// If a Sync fails and the file is one of a Mem, its unsynced data is lost for good. A Close,
// Unmap or unlock that fails has happened all the same, as with the operating system's.
type FaultFS struct {
	base FS
	*faults
}

// faults are what a FaultFS shares with those that Bind returns.
type faults struct {
	inject atomic.Pointer[InjectFunc]
	n      atomic.Int64
	counts [numOps]atomic.Int64
}

// NewFault returns a FaultFS over base. With a nil inject no operation fails.
func NewFault(base FS, inject func(op Op, name string, n int64) error) *FaultFS {
	f := &FaultFS{base: base, faults: new(faults)}
	f.Inject(inject)
	return f
}

// Inject replaces the function. With nil no operation fails from now on.
func (f *FaultFS) Inject(inject func(op Op, name string, n int64) error) {
	fn := InjectFunc(inject)
	if inject == nil {
		fn = func(Op, string, int64) error { return nil }
	}
	f.inject.Store(&fn)
}

// Ops returns the number of operations so far.
func (f *FaultFS) Ops() int64 { return f.n.Load() }

// Count returns the number of operations of one kind so far.
func (f *FaultFS) Count(op Op) int64 { return f.counts[op].Load() }

// FailAt returns a function with which one operation fails: the k-th of the given kinds,
// or of all kinds if none is given. It counts from 1, beginning with its first call.
func FailAt(k int64, err error, kinds ...Op) InjectFunc {
	return failWhen(err, func(i int64) bool { return i == k }, kinds)
}

// FailFrom is like FailAt, but all operations after the k-th fail too.
func FailFrom(k int64, err error, kinds ...Op) InjectFunc {
	return failWhen(err, func(i int64) bool { return i >= k }, kinds)
}

// FullFrom behaves like a disk that becomes full. It counts the operations that
// need room. The k-th one fails, and if it is a write, half of its bytes are
// written. All later ones fail without effect. Writes through a mapping need no
// room, because the file is preallocated. err is syscall.ENOSPC or EDQUOT.
func FullFrom(k int64, err error) InjectFunc {
	var seen atomic.Int64
	return func(op Op, _ string, _ int64) error {
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
var needRoom = []Op{OpCreate, OpLink, OpMkdirAll, OpWrite, OpPreallocate}

// failWhen returns a function with which operations of
// the given kinds fail if when is true for their number.
func failWhen(err error, when func(i int64) bool, kinds []Op) InjectFunc {
	var seen atomic.Int64
	return func(op Op, _ string, _ int64) error {
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
func (f *FaultFS) next(op Op, name string) *Fault {
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
func (f *FaultFS) do(op Op, name string, run func() error) error {
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
func (f *FaultFS) file(op Op, name string, open func(string) (File, error)) (File, error) {
	var file File
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
	return &faultFile{fs: f, file: file, name: name}, nil
}

// Create counts as OpCreate.
func (f *FaultFS) Create(name string) (File, error) {
	return f.file(OpCreate, name, f.base.Create)
}

// Open counts as OpOpen.
func (f *FaultFS) Open(name string) (File, error) {
	return f.file(OpOpen, name, f.base.Open)
}

// OpenReadWrite counts as OpOpenReadWrite.
func (f *FaultFS) OpenReadWrite(name string) (File, error) {
	return f.file(OpOpenReadWrite, name, f.base.OpenReadWrite)
}

// Rename counts as OpRename, under the new name.
func (f *FaultFS) Rename(oldname, newname string) error {
	return f.do(OpRename, newname, func() error { return f.base.Rename(oldname, newname) })
}

// Remove counts as OpRemove.
func (f *FaultFS) Remove(name string) error {
	return f.do(OpRemove, name, func() error { return f.base.Remove(name) })
}

// Link counts as OpLink, under the new name.
func (f *FaultFS) Link(oldname, newname string) error {
	return f.do(OpLink, newname, func() error { return f.base.Link(oldname, newname) })
}

// MkdirAll counts as OpMkdirAll.
func (f *FaultFS) MkdirAll(dir string) error {
	return f.do(OpMkdirAll, dir, func() error { return f.base.MkdirAll(dir) })
}

// SyncDir counts as OpSyncDir.
func (f *FaultFS) SyncDir(dir string) error {
	return f.do(OpSyncDir, dir, func() error { return f.base.SyncDir(dir) })
}

// List counts as OpList.
func (f *FaultFS) List(dir string) (names []string, err error) {
	err = f.do(OpList, dir, func() (err error) {
		names, err = f.base.List(dir)
		return err
	})
	return names, err
}

// Stat counts as OpStat.
func (f *FaultFS) Stat(name string) (info FileInfo, err error) {
	err = f.do(OpStat, name, func() (err error) {
		info, err = f.base.Stat(name)
		return err
	})
	return info, err
}

// Lock counts as OpLock, and Close of the lock as OpUnlock.
func (f *FaultFS) Lock(name string) (io.Closer, error) {
	var lock io.Closer
	err := f.do(OpLock, name, func() (err error) {
		lock, err = f.base.Lock(name)
		return err
	})
	if err != nil {
		if lock != nil {
			_ = lock.Close() // happened, but the caller got an error instead
		}
		return nil, err
	}
	return &faultLock{f, lock, name}, nil
}

// LockShared counts as OpLockShared. If the file system
// below has no shared locks, it returns ErrUnsupported.
func (f *FaultFS) LockShared(name string) (io.Closer, error) {
	base, ok := f.base.(SharedLocker)
	if !ok {
		return nil, ErrUnsupported
	}
	var lock io.Closer
	err := f.do(OpLockShared, name, func() (err error) {
		lock, err = base.LockShared(name)
		return err
	})
	if err != nil {
		if lock != nil {
			_ = lock.Close() // happened, but the caller got an error instead
		}
		return nil, err
	}
	return &faultLock{f, lock, name}, nil
}

// Abs returns what the file system below returns. It does not count as an operation.
func (f *FaultFS) Abs(name string) (string, error) { return Abs(f.base, name) }

// Within returns what the file system below returns. It does not count as an operation.
func (f *FaultFS) Within(name, dir string) (bool, error) { return Within(f.base, name, dir) }

// Resolve returns what the file system below returns. It does not count as an operation.
func (f *FaultFS) Resolve(name string) string { return Resolve(f.base, name) }

// Bind returns a FaultFS over the file system that the one
// below returns. The two count and inject together.
func (f *FaultFS) Bind(lock io.Closer) (FS, error) {
	l, ok := lock.(*faultLock)
	if !ok {
		return nil, ErrUnsupported
	}
	base, err := Bind(f.base, l.lock)
	if err != nil {
		return nil, err
	}
	return &FaultFS{base: base, faults: f.faults}, nil
}

// A faultLock is a lock that a FaultFS has taken.
type faultLock struct {
	fs   *FaultFS
	lock io.Closer
	name string
}

func (l *faultLock) Close() error {
	return l.fs.always(OpUnlock, l.name, l.lock.Close)
}

// Held counts as OpHeld.
func (l *faultLock) Held() error {
	return l.fs.do(OpHeld, l.name, func() error { return Held(l.lock) })
}

// always runs an operation in any case. If it has
// a fault, always returns the error afterwards.
func (f *FaultFS) always(op Op, name string, run func() error) error {
	fault := f.next(op, name)
	if err := run(); err != nil || fault == nil {
		return err
	}
	return fault.Err
}
