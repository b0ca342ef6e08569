package sstable

import (
	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/cache"
	"github.com/shaledb/shale/internal/prefetch"
)

// An Ahead begins to load what a lookup will look at, so that several lookups, one after the other, do not
// wait for main memory each by itself. The caller makes an Ahead for each of some keys, then it calls
// Block for each, and then it looks the keys up, each with its Ahead in Near. Only the time changes. The
// zero Ahead is of no lookup.
type Ahead struct {
	r *Reader
	h handle // the block that the lookup will look into
}

// Ahead searches the index for a lookup of key at seq, and begins to load the block's place in the cache.
// For a table whose index has two levels or is not in memory it does nothing.
func (r *Reader) Ahead(key []byte, seq base.Seq) Ahead {
	x := r.index.Load()
	if r.foot.levels > 1 || x == nil {
		return Ahead{}
	}
	h, ok := x.locate(key, base.NewTrailer(seq, base.KindMax))
	if !ok {
		return Ahead{}
	}
	a := Ahead{r, h}
	r.cache.Prefetch(a.key())
	return a
}

// Block begins to load what the search in the block looks at first, if the block is in the cache.
func (a Ahead) Block() {
	if a.r == nil {
		return
	}
	b := a.r.cache.Peek(a.key()).Bytes
	prefetch.Bytes(b[:min(len(b), blockHead)])
}

// key returns where the cache has the block.
func (a Ahead) key() cache.Key { return cache.Key{File: uint64(a.r.num), Offset: uint64(a.h.offset)} }
