// Package localdir is what a writer keeps in its own directory for the sake of the bucket: a lock from before
// the first request (lock.go), and a record of what is in the bucket (record.go; docs/REMOTE.md calls it the
// notes). It also reads the logs of the store there, to make segments of them (logs.go).
package localdir

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/manifest"
	"github.com/shaledb/shale/remote/internal/buckets"
	"github.com/shaledb/shale/vfs"
)

// A Lock is the lock of a store's directory, and the file system on which the local store is opened under it. A Store
// holds the lock from before its first request to the bucket until the end of Close. So a program that is started twice
// does not fence itself, and nobody claims the store while the one before still ships or writes its notes.
type Lock struct {
	vfs.FS
	path   string
	Locked io.Closer // nil: it is not held
}

// NewLock returns the lock of the directory dir, which is not held yet.
// Requires: dir is absolute, so that the path stays right if the program changes its working
// directory.
func NewLock(fsys vfs.FS, dir string) *Lock {
	return &Lock{FS: fsys, path: filepath.Join(dir, base.LockName)}
}

// Take takes the lock, and waits for it up to wait. A directory without a store is not locked: there is nothing to fence.
func (d *Lock) Take(ctx context.Context, wait time.Duration) error {
	// The store's file CURRENT decides. Its absence is not looked at again under the lock: a store
	// that is made meanwhile is found by remote.Open.
	var damage *base.CorruptionError // what looks damaged may be a store in the making, which is locked
	switch err := manifest.Exists(d.FS, filepath.Dir(d.path)); {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil && !errors.As(err, &damage):
		return err // it may be the directory of another program, with a lock of its own
	}
	for begin := time.Now(); ; {
		var err error
		if d.Locked, err = d.FS.Lock(d.path); err == nil {
			return nil
		}
		d.Locked = nil
		if !errors.Is(err, vfs.ErrLocked) || time.Since(begin) >= wait {
			return err
		}
		if err := buckets.Sleep(ctx, 20*time.Millisecond); err != nil {
			return err
		}
	}
}

// Release lets the lock go, if it is held.
func (d *Lock) Release() error {
	if d.Locked == nil {
		return nil
	}
	err := d.Locked.Close()
	if d.Locked = nil; err != nil {
		return fmt.Errorf("remote: unlock: %w", err)
	}
	return nil
}

// Lock lends the local store the lock that is held, and otherwise passes the call on. So the directory is never without its
// lock between the time before Open of the local store and the time after its Close.
func (d *Lock) Lock(name string) (io.Closer, error) {
	if name == d.path && d.Locked != nil {
		return lentLock{d.Locked}, nil
	}
	return d.FS.Lock(name)
}

// Bind implements vfs.Binder.
func (d *Lock) Bind(lock io.Closer) (vfs.FS, error) {
	if l, ok := lock.(lentLock); ok {
		lock = l.Closer
	}
	return vfs.Bind(d.FS, lock)
}

// Abs implements vfs.PathFS.
func (d *Lock) Abs(name string) (string, error) { return vfs.Abs(d.FS, name) }

// Within implements vfs.PathFS.
func (d *Lock) Within(name, dir string) (bool, error) { return vfs.Within(d.FS, name, dir) }

// Resolve implements vfs.Resolver.
func (d *Lock) Resolve(name string) string { return vfs.Resolve(d.FS, name) }

// LockShared implements vfs.SharedLocker.
func (d *Lock) LockShared(name string) (io.Closer, error) {
	if l, ok := d.FS.(vfs.SharedLocker); ok {
		return l.LockShared(name)
	}
	return nil, vfs.ErrUnsupported
}

// A lentLock is the lock of a Lock, as the local store has it.
// The local store closes it as it would its own, and knows nothing of the loan.
type lentLock struct{ io.Closer }

// Close gives the lock back. It stays held.
func (lentLock) Close() error { return nil }

// Held implements vfs.Holder.
func (l lentLock) Held() error { return vfs.Held(l.Closer) }
