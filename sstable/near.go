package sstable

import (
	"errors"

	"github.com/shaledb/shale/internal/cache"
)

// ErrNotCached is the error of a lookup with Near.CachedOnly that would have to read a block.
var ErrNotCached = errors.New("sstable: block is not in the cache")

// A Near lets several lookups of neighbouring keys, one after the other, share their blocks.
// It keeps the data block of the last lookup pinned. So the next lookup finds it without a
// search in the cache, and without a read if there is no cache. The zero value is ready. Its
// user calls Release at the end. A Near belongs to one goroutine.
type Near struct {
	CachedOnly bool  // fail with ErrNotCached instead of reading a block
	Ahead      Ahead // that was made for the next lookup, with its key and number; or the zero Ahead

	// The block that is pinned, and where it is from.
	reader *Reader
	at     handle
	block  *cache.Block
}

// Release unpins the block. The Near can be used again.
func (n *Near) Release() {
	if n.block != nil {
		n.block.Release()
	}
	n.reader, n.block = nil, nil
}

// blockNear is block for a lookup with n, which may be nil. It returns the block that n has
// pinned, if that is the one. Otherwise it gets the block, and a data block takes the place
// of the one in n. A block that CachedOnly finds in the cache is not kept in n.
func (r *Reader) blockNear(n *Near, h handle, kind BlockKind, t *Trace) (*cache.Block, error) {
	switch {
	case n == nil:
		return r.block(h, kind, true, t)
	case n.reader == r && n.at == h:
		n.block.Retain()
		return n.block, nil
	case n.CachedOnly:
		b := r.cache.Get(cache.Key{File: uint64(r.num), Offset: uint64(h.offset)})
		if b == nil {
			return nil, ErrNotCached // the lookup that reads it later counts the miss
		}
		r.stats.CacheHits.Add(1)
		return b, nil
	}
	b, err := r.block(h, kind, true, t)
	if err == nil && kind == BlockData {
		n.Release()
		n.reader, n.at, n.block = r, h, b
		b.Retain()
	}
	return b, err
}
