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

// Options say how to look. nil means the zero value.
type Options struct {
	// FS is the file system of both folders. Default: the operating system's.
	FS vfs.FS

	// Doubtful makes Run take what is authentic but not proven to be the newest
	// version of its key. Keys may be back that were deleted, and values that
	// were overwritten. Check takes no notice of it.
	Doubtful bool
}

func (o *Options) withDefaults() Options {
	var c Options
	if o != nil {
		c = *o
	}
	if c.FS == nil {
		c.FS = vfs.Default
	}
	return c
}

// keepOut keeps writers out of the store until the closer is closed. The error
// wraps vfs.ErrLocked if one is in. Where locks can't be shared, or the store
// has lost its lock file, there is nothing to hold.
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

type nothing struct{}

func (nothing) Close() error { return nil }
