package sstable

import (
	"errors"
	"runtime"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/cache"
	"github.com/shaledb/shale/vfs"
)

// TrySample calls fn for the entries of at most n data blocks that are spread evenly over the
// table: it divides the blocks into n stretches and takes the middle of each, in the order of the
// table. first says that kv is the first entry of its block. kv is valid during the call. An error
// of fn ends TrySample, which returns it.
//
// TrySample is for estimates. It reads what is in the system's memory, past the cache, so that it
// pushes no blocks out of that. It never waits for a device, and it does not count as a read. A block
// that is not in memory ends it with vfs.ErrWouldWait, and has been asked for. The error is
// vfs.ErrUnsupported if the source can't tell, if the index is not in memory, or if it has partitions.
func (r *Reader) TrySample(n int, fn func(kv *base.KV, first bool) error) error {
	root := r.index.Load()
	if root == nil || r.foot.levels != 1 || r.try == nil {
		return vfs.ErrUnsupported
	}
	defer runtime.KeepAlive(root)
	n = min(n, root.n)
	for i := range n {
		b, err := r.sampled(root.handle((2*i + 1) * root.n / (2 * n)))
		if err != nil {
			return err
		}
		err = eachEntry(b.Bytes(), fn)
		b.Release()
		if err != nil {
			return err
		}
	}
	return nil
}

// sampled reads a data block for TrySample.
func (r *Reader) sampled(h handle) (*cache.Block, error) {
	stored := r.allocStored(h, false)
	if err := r.try.TryReadAt(stored.Bytes(), h.offset); err != nil {
		stored.Release()
		if errors.Is(err, vfs.ErrWouldWait) {
			r.try.WillNeed(h.offset, int64(h.stored+blockTail))
		}
		return nil, err
	}
	return r.openStored(stored, h, BlockData, false)
}

// eachEntry calls fn for all entries of a block's payload.
func eachEntry(payload []byte, fn func(kv *base.KV, first bool) error) error {
	d := viewData(payload)
	var key []byte
	for i := range d.n {
		suffix, value := d.entry(i)
		key = append(append(key[:0], d.prefix...), suffix...)
		kv := base.KV{InternalKey: base.InternalKey{UserKey: key, Trailer: d.trailer(i)}, Value: value}
		if err := fn(&kv, i == 0); err != nil {
			return err
		}
	}
	return nil
}
