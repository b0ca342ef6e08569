package sstable

import (
	"math"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/cache"
	"github.com/shaledb/shale/internal/keys"
	"github.com/shaledb/shale/internal/prefetch"
)

// A sought is the state of a seek that is done in steps.
//
// Seeks in several tables at once would wait for main memory one after the other, and for the
// device. So the caller does each step for all of its iterators before the next step. Each step
// uses what the one before has prefetched, and prefetches for the next one.
//
//  0. Find the block in the index, and prefetch its place in the cache. If the index has two
//     levels, find the partition and ask for it. If the index is not in memory, ask for it.
//  1. Prefetch the block's entry in the cache. With two levels, find the block in the partition.
//  2. Pin the block, and prefetch its header. If it is not in the cache but in the system's
//     memory, read it; else ask for it (see tryread.go).
//  3. Read the header, and prefetch the first probes of the search.
//  4. Narrow the range of the search, and prefetch the next probes.
//
// SeekEnd finishes the seek. It waits for the block that step 2 has asked for. If a step meets
// an error, the seek leaves the steps, and SeekEnd does all of it.
type sought struct {
	found   bool // the steps go on: block ix has the entry, once top is loaded
	top     int  // partition of the index, if it has two levels
	ix      int
	pinned  bool // Iterator.block is block ix, but data is not yet a view of it
	pending bool // block ix has to be read from the device
	inside  bool // key has the block's prefix; head is the first bytes behind it
	head    uint64
	lo, hi  int // if inside: the entry is in [lo, hi]
}

// beforeAll is a trailer before all versions of a key.
const beforeAll = base.Trailer(math.MaxUint64)

// SeekStep does one step of a SeekGE that several iterators do together (base.StepSeeker). It
// does nothing if the target is past the end of the table: SeekEnd does that. It also leaves
// those iterators to SeekEnd that have a window of IterOptions.Readahead, or a trace.
func (i *Iterator) SeekStep(step int, key []byte, seq base.Seq) {
	i.seekStep(step, key, base.NewTrailer(seq, base.KindMax), false)
}

// SeekLTStep does one step of such a SeekLT. The entry that it looks for is the first at or after
// key: SeekLTEnd goes to the one before it.
func (i *Iterator) SeekLTStep(step int, key []byte) { i.seekStep(step, key, beforeAll, true) }

// seekStep does a step of a seek to (key, limit). If last is set, and the target is past the
// end of the table, the seek goes to the last block.
func (i *Iterator) seekStep(step int, key []byte, limit base.Trailer, last bool) {
	s := &i.sought
	if step == 0 {
		i.back = last
		s.pinned, s.pending, s.inside = false, false, false
		s.found = i.opts.Readahead == 0 && i.trace == nil && (!i.tryRoot() || i.findTop(key, limit, last))
	} else if step == 1 && s.found && i.root == nil {
		s.found = i.openRoot() && i.findTop(key, limit, last) // waits for the index
	}
	if !s.found {
		return
	}
	switch step {
	case 0:
		if i.r.foot.levels == 1 && i.root != nil {
			i.prefetchSlot()
		}
	case 1:
		if i.r.foot.levels == 1 {
			i.prefetchBlock()
		} else if s.found = i.findBelow(key, limit, last); s.found {
			i.prefetchSlot()
		}
	case 2:
		s.found = i.isAt(s.ix) || i.pinCached(s.ix) || i.tryLoad(s.ix)
	case 3:
		if !s.pending {
			i.beginSearch(key)
		}
	case 4:
		if s.inside {
			s.lo, s.hi = i.data.narrow(s.head, s.lo, s.hi)
			i.prefetchProbes()
		}
	}
}

// findTop finds the block in an index of one level, or the partition in one of two levels, and
// reports whether there is one. Requires: root is not nil.
func (i *Iterator) findTop(key []byte, limit base.Trailer, last bool) bool {
	s, x := &i.sought, i.root
	if i.r.foot.levels == 1 {
		s.ix = x.searchNear(i.near(), key, limit)
		if last {
			s.ix = min(s.ix, x.n-1)
		}
		return uint(s.ix) < uint(x.n)
	}
	s.top = x.searchNear(i.top, key, limit)
	if last {
		s.top = min(s.top, x.n-1)
	}
	if uint(s.top) >= uint(x.n) {
		return false
	}
	if i.top != s.top {
		i.tryTop(s.top)
	}
	return true
}

// findBelow finds the block in the partition. It waits for the partition if that is not in
// memory. It returns false if the partition can't be read, or has no such block although the top
// level names it: that happens only if the two levels contradict each other.
func (i *Iterator) findBelow(key []byte, limit base.Trailer, last bool) bool {
	s := &i.sought
	if !i.loadTop(s.top) {
		return false
	}
	s.ix = i.leaf.searchNear(i.near(), key, limit)
	if last {
		s.ix = min(s.ix, i.leaf.n-1)
	}
	return s.ix < i.leaf.n
}

// near returns the number of the block that is loaded, or -1. A search for a near key begins there.
func (i *Iterator) near() int {
	if i.loaded {
		return i.ix
	}
	return -1
}

// isAt reports whether block ix is loaded.
func (i *Iterator) isAt(ix int) bool { return i.loaded && i.ix == ix }

// prefetchSlot and prefetchBlock begin the two halves of the search in the cache.
func (i *Iterator) prefetchSlot() {
	if !i.isAt(i.sought.ix) {
		i.r.cache.Prefetch(i.cacheKey(i.sought.ix))
	}
}

func (i *Iterator) prefetchBlock() {
	if !i.isAt(i.sought.ix) {
		i.r.cache.PrefetchBlock(i.cacheKey(i.sought.ix))
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
	i.streak = 0
	i.pin(ix, b)
	payload := b.Bytes()
	prefetch.Bytes(payload[:min(len(payload), blockHead)])
	return true
}

// pin makes b, which is pinned, the block of the seek under way.
func (i *Iterator) pin(ix int, b *cache.Block) {
	i.dropData()
	i.on, i.block = false, b
	i.loaded, i.ix, i.sought.pinned = true, ix, true
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

// SeekEnd is SeekGE for a key that went through SeekStep.
// Requires: the steps were those for the same key and number.
func (i *Iterator) SeekEnd(key []byte, seq base.Seq) *base.KV {
	if !i.sought.found {
		return i.SeekGE(key, seq)
	}
	i.err = nil
	if i.sought.pending && !i.await() {
		return i.leave()
	}
	pos := i.landing(key, base.NewTrailer(seq, base.KindMax))
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

// SeekLTEnd is SeekLT for a key that went through SeekLTStep.
func (i *Iterator) SeekLTEnd(key []byte) *base.KV {
	if !i.sought.found {
		return i.SeekLT(key)
	}
	i.err = nil
	if i.sought.pending && !i.await() {
		return i.leave()
	}
	return i.showBefore(i.landing(key, beforeAll))
}

// landing returns the first entry of the block at or after (key, limit), or data.n.
func (i *Iterator) landing(key []byte, limit base.Trailer) int {
	s := &i.sought
	if s.inside {
		return i.data.seekWithin(key[len(i.data.prefix):], s.head, limit, s.lo, s.hi)
	}
	return i.data.seek(key, limit, 0)
}
