package sstable

import (
	"sync"

	"github.com/shaledb/shale/bloom"
	"github.com/shaledb/shale/vfs"
)

// This file asks the filter of a table that is not in memory. It does so for files on another machine, whose filter is on
// this one and is checked with each read (vfs.RemoteFile.ReadNear). For others it pays less, and a flipped bit would deny a
// key, since the checksum of a filter is over all of it.

// lineBuffers has memory for what a question reads.
var lineBuffers = sync.Pool{New: func() any { return new([64]byte) }}

// AskStored asks the filter in the table's file for a key, with a read of some bytes. hash returns the hash of the key by a
// function. If known is false, it could not be asked, and the key may be there.
//
// If the table has a sidecar, the filter in the table is asked all the same: it has the same keys, though it may be worse.
func (r *Reader) AskStored(hash func(bloom.Hasher) uint64) (maybe, known bool) {
	if r.foot.filter.stored == 0 {
		return true, false
	}
	src, h, s := (*nearReader)(r), r.foot.filter, r.stored.Load()
	if s == nil {
		if _, err := src.ReadAt(nil, h.offset); err != nil { // as in most stores: nothing is near
			return true, false
		}
	}
	buf := lineBuffers.Get().(*[64]byte)
	defer lineBuffers.Put(buf)
	if s == nil {
		end := buf[:bloom.StoredEnd]
		if _, err := src.ReadAt(end, h.offset+int64(h.stored-len(end))); err != nil {
			return true, false
		}
		opened, err := bloom.OpenStored(end, int64(h.stored))
		if err != nil {
			return true, false
		}
		s = opened
		r.stored.Store(s)
	}
	maybe, err := s.MayContainHash(src, h.offset, hash(s.Hasher()), buf)
	return maybe, err == nil
}

// A nearReader reads what a table's file has on this machine.
type nearReader Reader

// ReadAt implements io.ReaderAt.
func (r *nearReader) ReadAt(p []byte, off int64) (int, error) {
	f, ok := r.src.(vfs.RemoteFile)
	if !ok {
		return 0, vfs.ErrUnsupported
	}
	if err := f.ReadNear(p, off); err != nil {
		return 0, err
	}
	if len(p) > 0 {
		r.stats.ReadCalls.Add(1)
	}
	return len(p), nil
}
