package repair

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/vfs"
)

// Options say how Check and Run work. nil means the zero value.
type Options struct {
	// FS is the file system of both folders. The default is that of the operating system.
	FS vfs.FS

	// Doubtful makes Run also take entries that are authentic but not proven to be
	// the newest version of their key. Deleted keys and overwritten values may
	// come back. Check ignores it.
	Doubtful bool

	// GiveUp makes Run do without the tables that the store keeps elsewhere, as package remote does in a bucket: they count as
	// lost, and Run saves the rest. It is for a place that is lost for good. Without it the error wraps
	// shale.ErrElsewhere. Check ignores it.
	GiveUp bool

	// Read is called with the number of bytes that a read of the damaged store has got for the first time, so
	// that a program can show how far Check or Run has come: at the end of Check, they are about the size of
	// the store. It must be quick. nil: nobody asks.
	Read func(n int)
}

// withDefaults returns a copy in which every field is set.
func (o *Options) withDefaults() Options {
	var c Options
	if o != nil {
		c = *o
	}
	if c.FS == nil {
		c.FS = vfs.Default
	}
	if c.Read == nil {
		c.Read = func(int) {}
	}
	return c
}

// keepOut keeps writers out of the store until the returned Closer is closed. If a writer
// is in, the error wraps vfs.ErrLocked. If the file system has no shared locks, or the
// store has lost its lock file, keepOut locks nothing and returns no error.
func keepOut(fsys vfs.FS, dir string) (io.Closer, error) {
	locker, ok := fsys.(vfs.SharedLocker)
	if !ok {
		return nothing{}, nil
	}
	lock, err := locker.LockShared(filepath.Join(dir, base.LockName))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, vfs.ErrUnsupported) {
		return nothing{}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("repair: %w", err)
	}
	return lock, nil
}

// nothing is the Closer of a lock that is not held.
type nothing struct{}

func (nothing) Close() error { return nil }
