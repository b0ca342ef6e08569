package filecache

import (
	"cmp"

	"github.com/shaledb/shale/vfs"
)

// This file has the methods of vfs.RemoteFile. A File may be on this machine now, and on another one when it is opened again.

// Stream is that of vfs.RemoteFile. It returns nil if the file is on this machine, or can't be opened.
func (f *File) Stream(end int64) vfs.Stream {
	r, h, err := f.acquireRemote()
	if err != nil {
		return nil // the caller's next read reports what is wrong
	}
	s := r.Stream(end)
	_ = f.cache.release(h) // the same
	return s
}

// ReadNear is that of vfs.RemoteFile. The error is vfs.ErrUnsupported if the file is on this machine: nobody checks its bytes.
func (f *File) ReadNear(p []byte, off int64) error {
	r, h, err := f.acquireRemote()
	if err != nil {
		return err
	}
	err = r.ReadNear(p, off)
	return cmp.Or(err, f.cache.release(h))
}

// Refetch is that of vfs.RemoteFile.
func (f *File) Refetch() error {
	r, h, err := f.acquireRemote()
	if err != nil {
		return err
	}
	err = r.Refetch()
	return cmp.Or(err, f.cache.release(h))
}

// acquireRemote is acquire for a file on another machine. For another one, as in most stores, it takes no reference and returns
// vfs.ErrUnsupported: lookups come here that find all else in memory, and would write to what they share.
func (f *File) acquireRemote() (vfs.RemoteFile, *handle, error) {
	if !f.remote.Load() {
		return nil, nil, vfs.ErrUnsupported
	}
	h, err := f.acquire()
	if err != nil {
		return nil, nil, err
	}
	if r, ok := h.file.(vfs.RemoteFile); ok {
		return r, h, nil
	}
	return nil, nil, cmp.Or(f.cache.release(h), vfs.ErrUnsupported)
}
