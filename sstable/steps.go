package sstable

import (
	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/cache"
	"github.com/shaledb/shale/internal/keys"
	"github.com/shaledb/shale/internal/prefetch"
)

// A sought is the state of a seek that is done in steps.
//
// Seeks in several tables at once would wait for main memory one after the other. So the
// caller does each step for all of its iterators before the next step. Each step uses what
// the one before has prefetched, and prefetches for the next one.
//
//  0. Find the block in the index, and prefetch its place in the cache.
//  1. Prefetch the block's entry in the cache.
//  2. Pin the block, and prefetch its header.
//  3. Read the header, and prefetch the first probes of the search.
//  4. Narrow the range of the search, and prefetch the next probes.
//
// SeekEnd finishes the seek. If a block is not cached, the seek leaves the steps, and SeekEnd
// does all of it.
type sought struct {
	found  bool // the steps go on: block ix has the entry
	ix     int
	pinned bool // Iterator.block is block ix, but data is not yet a view of it
	inside bool // key has the block's prefix; head is the first bytes behind it
	head   uint64
	lo, hi int // if inside: the entry is in [lo, hi]
}

// SeekStep implements base.StepSeeker. It does nothing if the target is past the end of the
// table, or if a block is not cached: SeekEnd does these. It also leaves those iterators to
// SeekEnd that have an index with two levels, a window or a trace.
func (i *Iterator) SeekStep(step int, key []byte, seq base.Seq) {
	s := &i.sought
	if step == 0 {
		s.found = false
		if i.r.foot.levels == 1 && i.opts.Readahead == 0 && i.trace == nil {
			s.ix = i.leaf.search(key, base.NewTrailer(seq, base.KindMax))
			s.found = s.ix < i.leaf.n
		}
	}
	if !s.found {
		return
	}
	loaded := i.loaded && i.ix == s.ix
	switch {
	case step == 0 && !loaded:
		i.r.cache.Prefetch(i.cacheKey(s.ix))
	case step == 1 && !loaded:
		i.r.cache.PrefetchBlock(i.cacheKey(s.ix))
	case step == 2:
		s.found = loaded || i.pinCached(s.ix)
	case step == 3:
		i.beginSearch(key)
	case step == 4 && s.inside:
		s.lo, s.hi = i.data.narrow(s.head, s.lo, s.hi)
		i.prefetchProbes()
	}
}

// cacheKey returns where the cache has data block ix.
func (i *Iterator) cacheKey(ix int) cache.Key {
	return cache.Key{File: uint64(i.r.num), Offset: uint64(i.leaf.handle(ix).offset)}
}

// pinCached pins block ix if it is in the cache, and reports whether it is. Until
// beginSearch, data is not a view of the block, because its header is still on the way from
// memory.
func (i *Iterator) pinCached(ix int) bool {
	b := i.r.cache.Get(i.cacheKey(ix))
	if b == nil {
		return false
	}
	i.r.stats.CacheHits.Add(1)
	i.dropData()
	i.on, i.block = false, b
	i.loaded, i.ix, i.sought.pinned = true, ix, true
	payload := b.Bytes()
	prefetch.Bytes(payload[:min(len(payload), blockHead)])
	return true
}

// blockHead is the number of bytes that contain the header, the tags and the offsets of most
// blocks.
const blockHead = 192

// beginSearch reads the header of the block, and compares its prefix with the key.
func (i *Iterator) beginSearch(key []byte) {
	s := &i.sought
	if s.pinned {
		s.pinned = false
		i.view(i.block.Bytes())
	}
	p := len(i.data.prefix)
	s.lo, s.hi = 0, 0
	if s.inside = len(key) >= p && string(key[:p]) == string(i.data.prefix); s.inside {
		s.head, s.hi = keys.Head(key[p:]), i.data.n
	}
	i.prefetchProbes()
}

// prefetchProbes prefetches the entries that narrow will look at.
func (i *Iterator) prefetchProbes() {
	lo, hi := i.sought.lo, i.sought.hi
	step := (hi-lo)/(probes+1) + 1
	for p := lo + step - 1; p < hi; p += step {
		prefetch.Line(&i.data.b[i.data.offset(p)])
	}
}

// aheadOfSeek is the number of bytes behind the found entry that SeekEnd prefetches. They
// serve the first few calls of Next, until the processor itself prefetches.
const aheadOfSeek = 512

// SeekEnd implements base.StepSeeker. It is SeekGE for a key that went through SeekStep.
// Requires: the steps were those for the same key and number.
func (i *Iterator) SeekEnd(key []byte, seq base.Seq) *base.KV {
	s := &i.sought
	if !s.found {
		return i.SeekGE(key, seq)
	}
	i.err = nil
	pos, limit := 0, base.NewTrailer(seq, base.KindMax)
	if s.inside {
		pos = i.data.seekWithin(key[len(i.data.prefix):], s.head, limit, s.lo, s.hi)
	} else {
		pos = i.data.seek(key, limit, 0)
	}
	if pos < i.data.n {
		kv := i.show(pos)
		prefetch.Bytes(i.data.b[i.end:min(i.end+aheadOfSeek, len(i.data.b))])
		return kv
	}
	if !i.loadNext() {
		return i.leave()
	}
	return i.show(0)
}
