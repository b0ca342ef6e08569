package vfs

import (
	"errors"
	"io"
	"io/fs"
	"slices"
	"sync/atomic"
)

// An InjectFunc says whether an operation fails: nil is no. n numbers all
// operations of the FaultFS from 1 on. It is called by many goroutines at once.
type InjectFunc func(op Op, name string, n int64) error

// A Fault is what an InjectFunc returns to say more than that the operation
// fails at once.
type Fault struct {
	Err error
	// Short lets the first half of a write through.
	Short bool
	// After lets the operation happen and fails then: its outcome is unknown
	// to the caller, as when an answer is lost.
	After bool
}

// Error is the text of Err.
func (f *Fault) Error() string { return f.Err.Error() }

// Unwrap lets errors.Is and errors.As see Err.
func (f *Fault) Unwrap() error { return f.Err }

// FaultFS passes operations on to another file system and fails those that its
// InjectFunc chooses, with an error that wraps the injected one. A Sync that
// fails loses the unsynced data for good if the file is one of a Mem. A Close,
// Unmap or unlock that fails has happened nevertheless, as with a system's.
type FaultFS struct {
	base   FS
	inject atomic.Pointer[InjectFunc]
	n      atomic.Int64
	counts [numOps]atomic.Int64
}

// NewFault returns a file system over base. A nil inject fails nothing.
func NewFault(base FS, inject func(op Op, name string, n int64) error) *FaultFS {
	f := &FaultFS{base: base}
	f.Inject(inject)
	return f
}

// Inject changes the function: nil ends all faults.
func (f *FaultFS) Inject(inject func(op Op, name string, n int64) error) {
	fn := InjectFunc(inject)
	if inject == nil {
		fn = func(Op, string, int64) error { return nil }
	}
	f.inject.Store(&fn)
}

// Ops returns the number of operations so far.
func (f *FaultFS) Ops() int64 { return f.n.Load() }

// Count returns the number of operations of a kind so far.
func (f *FaultFS) Count(op Op) int64 { return f.counts[op].Load() }

// FailAt fails the k-th of the operations of the kinds given (of all if none
// are), counted from 1 from the first call on.
func FailAt(k int64, err error, kinds ...Op) InjectFunc {
	return failWhen(err, func(i int64) bool { return i == k }, kinds)
}

// FailFrom fails the k-th such operation and all after it.
func FailFrom(k int64, err error, kinds ...Op) InjectFunc {
	return failWhen(err, func(i int64) bool { return i >= k }, kinds)
}

// FullFrom is a disk that is full from the k-th operation on that needs room:
// a write gets half of its bytes through, the next ones nothing. Writes to
// mappings need none, being preallocated. err is syscall.ENOSPC or EDQUOT.
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

var needRoom = []Op{OpCreate, OpLink, OpMkdirAll, OpWrite, OpPreallocate}

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

// next numbers an operation and returns its fault: nil for none.
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

// do runs an operation unless it fails before.
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

// file runs an operation that opens a file.
func (f *FaultFS) file(op Op, name string, open func(string) (File, error)) (File, error) {
	var file File
	err := f.do(op, name, func() (err error) {
		file, err = open(name)
		return err
	})
	if err != nil {
		if file != nil {
			_ = file.Close() // happened, but the caller got an error instead
		}
		return nil, err
	}
	return &faultFile{fs: f, file: file, name: name}, nil
}

// Create is counted as OpCreate; the methods below likewise.
func (f *FaultFS) Create(name string) (File, error) {
	return f.file(OpCreate, name, f.base.Create)
}

func (f *FaultFS) Open(name string) (File, error) {
	return f.file(OpOpen, name, f.base.Open)
}

func (f *FaultFS) OpenReadWrite(name string) (File, error) {
	return f.file(OpOpenReadWrite, name, f.base.OpenReadWrite)
}

func (f *FaultFS) Rename(oldname, newname string) error {
	return f.do(OpRename, newname, func() error { return f.base.Rename(oldname, newname) })
}

func (f *FaultFS) Remove(name string) error {
	return f.do(OpRemove, name, func() error { return f.base.Remove(name) })
}

func (f *FaultFS) Link(oldname, newname string) error {
	return f.do(OpLink, newname, func() error { return f.base.Link(oldname, newname) })
}

func (f *FaultFS) MkdirAll(dir string) error {
	return f.do(OpMkdirAll, dir, func() error { return f.base.MkdirAll(dir) })
}

func (f *FaultFS) SyncDir(dir string) error {
	return f.do(OpSyncDir, dir, func() error { return f.base.SyncDir(dir) })
}

func (f *FaultFS) List(dir string) (names []string, err error) {
	err = f.do(OpList, dir, func() (err error) {
		names, err = f.base.List(dir)
		return err
	})
	return names, err
}

func (f *FaultFS) Stat(name string) (info FileInfo, err error) {
	err = f.do(OpStat, name, func() (err error) {
		info, err = f.base.Stat(name)
		return err
	})
	return info, err
}

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

// LockShared shares the lock if the file system below can.
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

// Abs returns what the file system below says. It is no operation.
func (f *FaultFS) Abs(name string) (string, error) { return Abs(f.base, name) }

// Within returns what the file system below says. It is no operation.
func (f *FaultFS) Within(name, dir string) (bool, error) { return Within(f.base, name, dir) }

type faultLock struct {
	fs   *FaultFS
	lock io.Closer
	name string
}

func (l *faultLock) Close() error {
	return l.fs.always(OpUnlock, l.name, l.lock.Close)
}

// always runs an operation and fails it afterwards, if at all.
func (f *FaultFS) always(op Op, name string, run func() error) error {
	fault := f.next(op, name)
	if err := run(); err != nil || fault == nil {
		return err
	}
	return fault.Err
}
