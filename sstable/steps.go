package sstable

import (
	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/cache"
	"github.com/shaledb/shale/internal/keys"
	"github.com/shaledb/shale/internal/prefetch"
)

// A sought is how far the steps of a seek have come.
type sought struct {
	found  bool // ix is the block to look in
	ix     int
	pinned bool // block is it, and data is not yet a view of it
	inside bool // key has the block's prefix, and head is what follows it
	head   uint64
	lo, hi int // the entries to look at then
}

// SeekStep implements base.StepSeeker. What is past the end of the table, and
// what would take a read from the file, is left to SeekEnd.
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

func (i *Iterator) cacheKey(ix int) cache.Key {
	return cache.Key{File: uint64(i.r.num), Offset: uint64(i.leaf.handle(ix).offset)}
}

// pinCached is the first half of load, if that takes no read. The other half is
// beginSearch, when the block's head has come.
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

// blockHead is where the header, tags and offsets of most blocks end.
const blockHead = 192

// beginSearch begins to look at the block.
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

// prefetchProbes begins to load what narrow is going to look at.
func (i *Iterator) prefetchProbes() {
	lo, hi := i.sought.lo, i.sought.hi
	step := (hi-lo)/(probes+1) + 1
	for p := lo + step - 1; p < hi; p += step {
		prefetch.Line(&i.data.b[i.data.offset(p)])
	}
}

// aheadOfSeek is how many bytes behind the entry found are loaded: for a few
// steps, until the processor sees where they go.
const aheadOfSeek = 512

// SeekEnd implements base.StepSeeker.
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
