package shale

import (
	"io"
	"path/filepath"

	"github.com/shaledb/shale/internal/guard"
	"github.com/shaledb/shale/vfs"
)

// This file has where a store is: its file system, directory and lock.

// A place is where a store is. It is constant after Open.
type place struct {
	fs      vfs.FS // guard; of a read-only store Options.FS
	guard   *guard.FS
	dir     string
	storeID uint64
	session uint64    // of this handle, if it writes: see manifest.Session
	lock    io.Closer // nil if read-only
}

func (p *place) path(name string) string { return filepath.Join(p.dir, name) }

// unlock gives up the lock, if the store has one.
func (p *place) unlock() error {
	if p.lock == nil {
		return nil
	}
	return p.lock.Close()
}
