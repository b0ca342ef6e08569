package sstable

import (
	"runtime"

	"github.com/shaledb/shale/internal/base"
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
		return r.sampleLeaf(&root.index, n, fn)
	}
	top := root.n
	n = min(n, top)
	for i := range n {
		b, err := r.readBlock(root.handle((2*i+1)*top/(2*n)), BlockIndexPartition, false, nil)
		if err != nil {
			return err
		}
		x := viewIndex(b.Bytes())
		err = r.sampleLeaf(&x, 1, fn)
		b.Release()
		if err != nil {
			return err
		}
	}
	return nil
}

// sampleLeaf samples at most n of the blocks that x names. It divides them into n stretches
// and takes the middle of each.
func (r *Reader) sampleLeaf(x *index, n int, fn func(kv *base.KV, first bool) error) error {
	n = min(n, x.n)
	for i := range n {
		b, err := r.readBlock(x.handle((2*i+1)*x.n/(2*n)), BlockData, false, nil)
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
