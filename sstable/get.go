package sstable

import (
	"runtime"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/cache"
)

// Want is what a lookup is to do with the value that it finds.
type Want uint8

// The wants. Copies are cheaper than pins, where a value is copied anyway.
const (
	WantPinned Want = iota // Bytes is the value, in its block, until Release
	WantCopy               // append the value to Bytes
	WantNone               // leave Bytes alone
)

// A Value is what Get found. The zero value is ready for Get.
type Value struct {
	Bytes   []byte
	Trailer base.Trailer // of the version found
	Want    Want
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
	if v.Want != WantPinned && n == nil && t == nil {
		if found, ok := r.peek(h, key, byte(hash), limit, v); ok {
			return found, nil
		}
	}
	b, err := r.blockNear(n, h, BlockData, t)
	if err != nil {
		return false, err
	}
	value, trailer, found := lookIn(b.Bytes(), key, byte(hash), limit)
	if !found {
		b.Release()
		return false, nil
	}
	v.Trailer = trailer
	if v.Want == WantPinned {
		v.Bytes, v.block = value, b
		return true, nil
	}
	v.take(value)
	b.Release()
	return true, nil
}

// take keeps a value that is not pinned.
func (v *Value) take(value []byte) {
	if v.Want == WantCopy {
		v.Bytes = append(v.Bytes, value...)
	}
}

// peek is the end of get for a block in the cache, without a pin: what it reads
// may become nonsense while it reads it, so nothing counts before Valid. Not ok:
// to be done with a pin.
func (r *Reader) peek(h handle, key []byte, tag byte, limit base.Trailer, v *Value) (found, ok bool) {
	p := r.cache.Peek(cache.Key{File: uint64(r.num), Offset: uint64(h.offset)})
	if p.Bytes == nil {
		return false, false
	}
	value, trailer, found := lookIn(p.Bytes, key, tag, limit)
	if !found {
		value = nil
	}
	longer := v.Bytes
	if v.Want == WantCopy {
		longer = append(longer, value...)
	}
	if !p.Valid() {
		return false, false
	}
	r.stats.CacheHits.Add(1)
	if found {
		v.Bytes, v.Trailer = longer, trailer
	}
	return found, true
}

// locate returns the one data block that can hold the newest entry at or
// after (key, limit), false if none can.
func (r *Reader) locate(n *Near, key []byte, limit base.Trailer, t *Trace) (handle, bool, error) {
	i := r.index.search(key, limit)
	if i == r.index.n {
		return handle{}, false, nil
	}
	h := r.index.handle(i)
	runtime.KeepAlive(r)
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
