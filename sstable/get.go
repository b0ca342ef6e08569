package sstable

import (
	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/cache"
)

// Want says what a lookup does with the value that it finds.
type Want uint8

// The wants. If the caller copies the value in any case, WantCopy is cheaper than WantPinned:
// a copy from a cached block needs no pin.
const (
	WantPinned Want = iota // Bytes is the value in its block, valid until Release
	WantCopy               // append the value to Bytes
	WantNone               // leave Bytes alone
)

// A Value is the result of Get. The zero value is ready for Get.
type Value struct {
	Bytes   []byte       // the value, as Want says
	Trailer base.Trailer // sequence number and kind of the version found
	Want    Want         // set by the caller
	Expiry  int64        // of a version of base.KindExpiring: when it is over; Bytes does not have it
	block   *cache.Block // the block that Bytes is in, pinned; nil: none
}

// Release unpins the block that Bytes is in, and clears v. It may be called on a zero Value
// and more than once.
func (v *Value) Release() {
	if v.block != nil {
		v.block.Release()
	}
	*v = Value{}
}

// Get finds the newest version of key with a sequence number of at most seq. A tombstone is a
// version too. hash is bloom.Hash(key).
//
// Get does not ask the filter; that is for the caller. It reads at most one block, one more if
// the index has two levels, and one more if the index is not in memory. If it returns true, the caller has to call v.Release. It does not
// release what v held before. t, if not nil, records the blocks.
func (r *Reader) Get(key []byte, hash uint64, seq base.Seq, v *Value, t *Trace) (bool, error) {
	return r.get(nil, key, hash, seq, v, t)
}

// GetNear is Get for one of several lookups that share their blocks through n.
func (r *Reader) GetNear(n *Near, key []byte, hash uint64, seq base.Seq, v *Value) (bool, error) {
	return r.get(n, key, hash, seq, v, nil)
}

// get looks for the newest version of key within seq, in these steps:
//
//  1. locate searches the index, and in a large table one partition, for the one data block
//     that can hold the answer.
//  2. If the value need not be pinned, peek tries to look into the block in the cache without
//     a pin: to pin a block writes to memory that all its readers share.
//  3. Otherwise, or if that failed, the block is pinned, and read from the file if it is not
//     in the cache. lookIn searches it.
//  4. The block stays pinned if the caller wants the value in it. Else it is released.
func (r *Reader) get(n *Near, key []byte, hash uint64, seq base.Seq, v *Value, t *Trace) (bool, error) {
	limit := base.NewTrailer(seq, base.KindMax)
	h, ok, err := r.locate(n, key, limit, t)
	if !ok || err != nil {
		return false, err
	}
	if v.Want != WantPinned && (n == nil || n.CachedOnly) && t == nil {
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
	if trailer.Kind() == base.KindExpiring {
		v.Expiry, value = base.CutExpiry(value)
	}
	if v.Want == WantPinned {
		v.Bytes, v.block = value, b
		return true, nil
	}
	v.take(value)
	b.Release()
	return true, nil
}

// take stores a value that is not to be pinned.
func (v *Value) take(value []byte) {
	if v.Want == WantCopy {
		v.Bytes = append(v.Bytes, value...)
	}
}

// peek looks into a block of the cache without pinning it. ok is false if the block is not
// cached, or was evicted meanwhile; then the caller looks again with a pin.
//
// Without a pin, the memory of the block may be given to another block, and overwritten,
// while peek reads it. So what it has read counts only if Valid returns true afterwards.
// lookIn is safe on changing bytes. Until then v.Bytes keeps its length: what append writes
// behind it is not seen.
func (r *Reader) peek(h handle, key []byte, tag byte, limit base.Trailer, v *Value) (found, ok bool) {
	p := r.cache.Peek(cache.Key{File: uint64(r.num), Offset: uint64(h.offset)})
	if p.Bytes == nil {
		return false, false
	}
	value, trailer, found := lookIn(p.Bytes, key, tag, limit)
	if !found {
		value = nil
	}
	if trailer.Kind() == base.KindExpiring {
		v.Expiry, value = base.CutExpiry(value)
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

// locate returns the handle of the one data block that can hold the newest entry at or after
// (key, limit). It returns false if there is none. n may be nil; it may know the handle.
func (r *Reader) locate(n *Near, key []byte, limit base.Trailer, t *Trace) (handle, bool, error) {
	if n != nil && n.Ahead.r == r {
		return n.Ahead.h, true, nil
	}
	h, ok, err := r.locateTop(n, key, limit, t)
	if !ok || err != nil || r.foot.levels == 1 {
		return h, ok, err
	}
	b, err := r.blockNear(n, h, BlockIndexPartition, t)
	if err != nil {
		return handle{}, false, err
	}
	x := viewIndex(b.Bytes())
	i := x.search(key, limit)
	if i < x.n {
		h = x.handle(i)
	}
	b.Release()
	return h, i < x.n, nil
}
