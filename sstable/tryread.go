package sstable

import (
	"github.com/shaledb/shale/internal/cache"
	"github.com/shaledb/shale/vfs"
)

// A tryReader is a source that can read what is in the system's memory, without waiting for the
// device. The methods are those of vfs.TryReader.
type tryReader interface {
	TryReadAt(p []byte, off int64) error
	WillNeed(off, n int64)
}

// maxTry is the most bytes of a block that a seek copies without waiting. A larger block takes
// longer to copy than to ask for.
const maxTry = 64 << 10

// tryBlock is readBlock for a block that may be in the system's memory. If it is not, the error
// is vfs.ErrWouldWait. If the source can't tell, the error is vfs.ErrUnsupported.
func (r *Reader) tryBlock(h handle, kind BlockKind, fill bool, t *Trace) (*cache.Block, error) {
	if r.try == nil {
		return nil, vfs.ErrUnsupported
	}
	if h.stored > maxTry {
		return nil, vfs.ErrWouldWait
	}
	stored := r.allocStored(h, fill)
	if err := r.try.TryReadAt(stored.Bytes(), h.offset); err != nil {
		stored.Release()
		return nil, err
	}
	r.stats.ReadCalls.Add(1)
	r.countRead(h, kind, t)
	return r.openStored(stored, h, kind, fill)
}

// tryData is tryBlock for data block ix. If that would wait, tryData asks for the block.
func (i *Iterator) tryData(ix int, h handle) (*cache.Block, error) {
	b, err := i.r.tryBlock(h, BlockData, !i.opts.NoFill, i.trace)
	if err == vfs.ErrWouldWait {
		i.ask(ix, h)
	}
	return b, err
}

// maxNeighbour is the most bytes of a neighbour that ask adds to a block.
const maxNeighbour = 8 << 10

// ask asks for data block ix, and for its neighbour in the direction of the seek if that is small
// and not in the cache. A short scan comes to the neighbour in one of a few seeks, and would wait
// for it once more. Two small blocks take the device as long as one.
func (i *Iterator) ask(ix int, h handle) {
	from, to := h.offset, h.offset+int64(h.stored+blockTail)
	neighbour := ix + 1
	if i.back {
		neighbour = ix - 1
	}
	if uint(neighbour) < uint(i.leaf.n) && !i.r.cache.Holds(i.cacheKey(neighbour)) {
		if n := i.leaf.handle(neighbour); n.stored <= maxNeighbour {
			from, to = min(from, n.offset), max(to, n.offset+int64(n.stored+blockTail))
		}
	}
	i.r.try.WillNeed(from, to-from)
}

// tryLoad loads data block ix, which is not in the cache, if that needs no wait. Otherwise the
// block is pending: it was asked for, and await waits for it. tryLoad returns false after an
// error; SeekGE and SeekLT then read the block again, and report what they meet.
func (i *Iterator) tryLoad(ix int) bool {
	i.r.stats.CacheMisses.Add(1)
	i.misses++
	i.r.sought.Add(1)
	i.dropData()
	i.on = false
	i.stride, i.streak, i.want = 0, 1, minAhead // as after any seek to what was not cached
	b, err := i.tryData(ix, i.leaf.handle(ix))
	switch {
	case err == nil:
		i.pin(ix, i.keep(ix, b))
	case err == vfs.ErrWouldWait, err == vfs.ErrUnsupported:
		i.sought.pending = true
	default:
		return false
	}
	return true
}

// keep puts block ix, which was read, into the cache unless NoFill is set. It returns the block
// to use: that of another reader if it came first.
func (i *Iterator) keep(ix int, b *cache.Block) *cache.Block {
	if i.opts.NoFill {
		return b
	}
	return i.r.cache.Insert(i.cacheKey(ix), b)
}

// await reads the data block that is pending. It returns false after an error, which is in err.
func (i *Iterator) await() bool {
	i.sought.pending = false
	ix := i.sought.ix
	b, err := i.r.readBlock(i.leaf.handle(ix), BlockData, !i.opts.NoFill, nil)
	if err != nil {
		i.err = err
		return false
	}
	i.pin(ix, i.keep(ix, b))
	i.sought.pinned = false
	i.view(i.block.Bytes())
	return true
}

// tryRoot makes root the index if that needs no wait, and reports whether root is there. Otherwise
// it asks for the index, and openRoot waits for it. openRoot also reports errors.
func (i *Iterator) tryRoot() bool {
	if i.root != nil || i.findRoot() {
		return true
	}
	b := i.tryIndex(i.r.foot.index, BlockIndex)
	if b != nil {
		i.holdRoot(b)
	}
	return b != nil
}

// tryTop loads partition top of the index if that needs no wait. Otherwise it asks for the
// partition, and loadTop waits for it. loadTop also reports errors.
func (i *Iterator) tryTop(top int) {
	i.dropData()
	i.dropPartition()
	i.on = false
	h := i.root.handle(top)
	b := i.r.cache.Get(cache.Key{File: uint64(i.r.num), Offset: uint64(h.offset)})
	if b != nil {
		i.r.stats.CacheHits.Add(1)
	} else {
		b = i.tryIndex(h, BlockIndexPartition)
	}
	if b != nil {
		i.setTop(top, b)
	}
}

// tryIndex reads an index or a partition, which is not in the cache, and puts it there. If that
// would wait, tryIndex asks for it. It returns nil then, and after an error.
func (i *Iterator) tryIndex(h handle, kind BlockKind) *cache.Block {
	b, err := i.r.tryBlock(h, kind, !i.opts.NoFill, nil)
	if err == vfs.ErrWouldWait {
		i.r.try.WillNeed(h.offset, int64(h.stored+blockTail))
	}
	if err != nil {
		return nil
	}
	i.r.stats.CacheMisses.Add(1)
	if !i.opts.NoFill {
		b = i.r.cache.Insert(cache.Key{File: uint64(i.r.num), Offset: uint64(h.offset)}, b)
	}
	return b
}
