package sstable

import (
	"errors"

	"github.com/shaledb/shale/internal/cache"
)

// ErrNotCached is what a lookup with Near.CachedOnly gets instead of reading.
var ErrNotCached = errors.New("sstable: block is not in the cache")

// A Near makes lookups of neighbouring keys, one after the other, share their
// blocks, also without a cache: it pins the last data block. The zero value is
// ready; Release ends it.
type Near struct {
	CachedOnly bool // give up with ErrNotCached where a block would have to be read

	reader *Reader
	at     handle
	block  *cache.Block
}

// Release lets go of the block.
func (n *Near) Release() {
	if n.block != nil {
		n.block.Release()
	}
	n.reader, n.block = nil, nil
}

// blockNear is block for a data block or partition of a lookup with n, which may
// be nil.
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
			return nil, ErrNotCached // and a miss when it is read
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
