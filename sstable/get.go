package sstable

import (
	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/cache"
)

// A Value is what Get found. The zero value is ready for Get.
type Value struct {
	Bytes   []byte       // valid until Release; must not be changed
	Trailer base.Trailer // of the version found
	block   *cache.Block // pinned, nil if nothing is
}

// Release lets go of the block that holds Bytes. It may be called on a zero
// Value and more than once.
func (v *Value) Release() {
	if v.block != nil {
		v.block.Release()
	}
	*v = Value{}
}

// Get finds the newest version of key with a sequence number of at most seq,
// a tombstone being one. hash is bloom.Hash(key). It does not ask the filter.
// If it returns true the caller has to Release v; what v held before is
// not released. It reads one block at most, two if the index is large.
func (r *Reader) Get(key []byte, hash uint64, seq base.Seq, v *Value, t *Trace) (bool, error) {
	return r.get(nil, key, hash, seq, v, t)
}

// GetNear is Get for one of several lookups that share their blocks.
func (r *Reader) GetNear(n *Near, key []byte, hash uint64, seq base.Seq, v *Value) (bool, error) {
	return r.get(n, key, hash, seq, v, nil)
}

func (r *Reader) get(n *Near, key []byte, hash uint64, seq base.Seq, v *Value, t *Trace) (bool, error) {
	limit := base.NewTrailer(seq, base.KindMax)
	h, ok, err := r.locate(n, key, limit, t)
	if !ok || err != nil {
		return false, err
	}
	b, err := r.blockNear(n, h, BlockData, t)
	if err != nil {
		return false, err
	}
	d := viewData(b.Bytes())
	i := d.find(key, byte(hash), limit)
	if i < 0 {
		b.Release()
		return false, nil
	}
	_, v.Bytes = d.entry(i)
	v.Trailer = d.trailer(i)
	v.block = b
	return true, nil
}

// locate returns the one data block that can hold the newest entry at or
// after (key, limit), false if none can.
func (r *Reader) locate(n *Near, key []byte, limit base.Trailer, t *Trace) (handle, bool, error) {
	i := r.index.search(key, limit)
	if i == r.index.n {
		return handle{}, false, nil
	}
	h := r.index.handle(i)
	if r.foot.levels == 1 {
		return h, true, nil
	}
	b, err := r.blockNear(n, h, BlockIndexPartition, t)
	if err != nil {
		return handle{}, false, err
	}
	x := viewIndex(b.Bytes())
	if i = x.search(key, limit); i < x.n {
		h = x.handle(i)
	}
	b.Release()
	return h, i < x.n, nil
}
