package sstable

import (
	"errors"
	"runtime"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/cache"
	"github.com/shaledb/shale/vfs"
)

// Sample calls fn for the entries of at most n data blocks that are spread evenly over the
// table, in the order of the table. first says that kv is the first entry of its block. kv is
// valid during the call. An error of fn ends Sample, which returns it.
//
// Sample is for estimates. It reads past the cache, so that it pushes no blocks out of it.
func (r *Reader) Sample(n int, fn func(kv *base.KV, first bool) error) error {
	root := r.index.Load()
	if root == nil {
		var err error
		if root, err = r.readIndex(tail{}); err != nil {
			return err
		}
		defer root.abandon()
	}
	defer runtime.KeepAlive(root)
	if r.foot.levels == 1 {
		return r.sampleLeaf(&root.index, n, r.sampled, fn)
	}
	top := root.n
	n = min(n, top)
	for i := range n {
		b, err := r.readBlock(root.handle((2*i+1)*top/(2*n)), BlockIndexPartition, false, nil)
		if err != nil {
			return err
		}
		x := viewIndex(b.Bytes())
		err = r.sampleLeaf(&x, 1, r.sampled, fn)
		b.Release()
		if err != nil {
			return err
		}
	}
	return nil
}

// TrySample is Sample of what is in the system's memory. It never waits for a device, and it does
// not count as a read. A block that is not in memory ends it with vfs.ErrWouldWait, and has
// been asked for. The error is vfs.ErrUnsupported if the source can't tell, if the index is not in
// memory, or if it has partitions.
func (r *Reader) TrySample(n int, fn func(kv *base.KV, first bool) error) error {
	root := r.index.Load()
	if root == nil || r.foot.levels != 1 || r.try == nil {
		return vfs.ErrUnsupported
	}
	defer runtime.KeepAlive(root)
	return r.sampleLeaf(&root.index, n, func(h handle) (*cache.Block, error) {
		stored := r.allocStored(h, false)
		if err := r.try.TryReadAt(stored.Bytes(), h.offset); err != nil {
			stored.Release()
			if errors.Is(err, vfs.ErrWouldWait) {
				r.try.WillNeed(h.offset, int64(h.stored+blockTail))
			}
			return nil, err
		}
		return r.openStored(stored, h, BlockData, false)
	}, fn)
}

// sampled reads a block for Sample.
func (r *Reader) sampled(h handle) (*cache.Block, error) {
	return r.readBlock(h, BlockData, false, nil)
}

// sampleLeaf samples at most n of the blocks that x names. It divides them into n stretches
// and takes the middle of each.
func (r *Reader) sampleLeaf(x *index, n int, read func(h handle) (*cache.Block, error), fn func(kv *base.KV, first bool) error) error {
	n = min(n, x.n)
	for i := range n {
		b, err := read(x.handle((2*i + 1) * x.n / (2 * n)))
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
