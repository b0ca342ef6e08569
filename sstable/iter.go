package sstable

import (
	"bytes"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/cache"
	"github.com/shaledb/shale/internal/prefetch"
)

// IterOptions say how an iterator reads data blocks. There are three ways:
//
//   - The zero value takes blocks from the cache, and puts those into it that it had to read.
//     A scan that finds its blocks not cached reads several at once (see Iterator.fetch).
//   - NoFill leaves the blocks that it had to read out of the cache, so that a scan which is
//     done once does not push others out of it.
//   - Readahead does not use the cache for data blocks. It is for a compaction or for building
//     a filter, which read each block once, in order (see Iterator.readAhead).
type IterOptions struct {
	NoFill    bool   // do not put blocks into the cache that were not there
	Readahead int    // bytes to read at once, past the cache, for one pass over the table; 0: use the cache
	Upper     []byte // a pass with Readahead ends when it has met a key at or after it; nil: at the end of the table
}

// An Iterator walks the entries of a table. It implements base.Iterator and allocates nothing
// after its first few steps. It belongs to one goroutine.
//
// The iterator has up to three things loaded: partition top of the index, if the index has
// two levels; data block ix of leaf, which is that partition or the whole index; and entry
// pos of that block, while on is set. It keeps the partition and the block pinned until it
// moves to others.
type Iterator struct {
	r     *Reader
	opts  IterOptions
	trace *Trace

	// The entry.
	on   bool
	pos  int
	end  int // where entry pos ends in data.b
	kv   base.KV
	key  []byte // the block's prefix, followed by the suffix of the last entry shown
	data dataBlock
	err  error

	// The data block, and the partition of the index that it is in.
	loaded bool // data is a view of block ix; block pins it, unless it is in ahead
	block  *cache.Block
	ix     int
	root   *index       // the index, or its top level; nil: openRoot was not called yet
	cached index        // what root points to if the Reader does not have it in memory
	held   *cache.Block // that cached is in, pinned
	top    int          // number of the partition in part; -1: none is loaded
	leaf   *index
	part   index // what leaf points to if there are two levels
	pinned *cache.Block

	// Reading ahead: see fetch.
	ahead  window
	stride int  // direction of the last reads: 1, -1, or 0 for a seek
	back   bool // the last seek was towards smaller keys
	streak int  // number of reads in that direction since the last one that was cached
	want   int  // bytes that the next read ahead takes
	pass   pass

	sought sought
	misses uint32 // blocks not found in the cache by First, Last and seeks
}

// TakeMisses returns how many data blocks the iterator did not find in the cache since the
// last call. It does not count those that Next and Prev moved to.
func (i *Iterator) TakeMisses() uint32 {
	n := i.misses
	if n > 0 {
		i.misses = 0
	}
	return n
}

// NewIterator returns an iterator over the table that reads through the cache. If t is not
// nil, the blocks that it uses are added to t.
func (r *Reader) NewIterator(t *Trace) *Iterator { return r.NewIteratorWith(t, IterOptions{}) }

// NewIteratorWith is NewIterator with options.
func (r *Reader) NewIteratorWith(t *Trace, o IterOptions) *Iterator {
	i := new(Iterator)
	i.Reset(r, t, o)
	return i
}

// Reset makes i what NewIteratorWith returns, without allocating. Requires: i is closed, or
// the zero value.
func (i *Iterator) Reset(r *Reader, t *Trace, o IterOptions) {
	// Everything else becomes zero. The buffer of key is kept.
	*i = Iterator{r: r, opts: o, trace: t, top: -1, key: i.key[:0]}
	if x := r.index.Load(); x != nil {
		i.setRoot(&x.index)
	}
}

// setRoot makes x the index, or its top level.
func (i *Iterator) setRoot(x *index) {
	if i.root, i.leaf = x, x; i.r.foot.levels > 1 {
		i.leaf = &i.part
	}
}

// openRoot makes root the index, which was not in memory when the iterator was reset. It is
// read through the cache, unless it is in memory by now, and stays pinned. openRoot returns false
// after an error, which is in err. Requires: root is nil.
func (i *Iterator) openRoot() bool {
	if i.findRoot() {
		return true
	}
	fill := !i.opts.NoFill && i.opts.Readahead == 0
	b, err := i.r.block(i.r.foot.index, BlockIndex, fill, i.trace)
	if err != nil {
		i.err = err
		return false
	}
	i.holdRoot(b)
	return true
}

// findRoot makes root the index if it is in memory, or in the cache, and reports whether it is.
// Requires: root is nil.
func (i *Iterator) findRoot() bool {
	if x := i.r.neededIndex(); x != nil {
		i.setRoot(&x.index)
		return true
	}
	b := i.r.cache.Get(cache.Key{File: uint64(i.r.num), Offset: uint64(i.r.foot.index.offset)})
	if b == nil {
		return false // openRoot counts the miss
	}
	i.r.stats.CacheHits.Add(1)
	i.trace.add(BlockIndex, i.r.foot.index, true)
	i.holdRoot(b)
	return true
}

// holdRoot makes root the index in b, which is pinned.
func (i *Iterator) holdRoot(b *cache.Block) {
	i.held, i.cached = b, viewIndex(b.Bytes())
	i.setRoot(&i.cached)
}

// First moves to the first entry.
func (i *Iterator) First() *base.KV {
	i.err, i.back = nil, false
	if i.root == nil && !i.openRoot() || i.root.n == 0 || !i.loadTop(0) || !i.load(0) {
		return i.leave()
	}
	return i.show(0)
}

// Last moves to the last entry.
func (i *Iterator) Last() *base.KV {
	i.err, i.back = nil, true
	if i.root == nil && !i.openRoot() {
		return i.leave()
	}
	n := i.root.n
	if n == 0 || !i.loadTop(n-1) || !i.load(i.leaf.n-1) {
		return i.leave()
	}
	return i.show(i.data.n - 1)
}

// SeekGE moves to the first entry at or after (key, seq). If it is further ahead in the current
// block, it is found without the index.
func (i *Iterator) SeekGE(key []byte, seq base.Seq) *base.KV {
	i.err, i.back = nil, false
	limit := base.NewTrailer(seq, base.KindMax)
	if i.on {
		if c := bytes.Compare(i.kv.UserKey, key); c < 0 || c == 0 && i.kv.Trailer > limit {
			// Behind the current entry. If the target is not in this block, the index finds
			// it.
			if pos := i.data.seek(key, limit, i.pos+1); pos < i.data.n {
				return i.show(pos)
			}
		}
	}
	found, past := i.find(key, limit)
	if !found {
		return i.leave()
	}
	pos := i.data.n
	if !past {
		pos = i.data.seek(key, limit, 0)
	}
	if pos < i.data.n {
		return i.show(pos)
	}
	// All entries of the block are before the target, although the separator is not: a
	// separator may be greater than the last entry of its block.
	if !i.loadNext() {
		return i.leave()
	}
	return i.show(0)
}

// SeekLT moves to the last entry whose user key is less than key: it finds the first entry at
// or after key, and goes to the one before it. If the target is further back in the current
// block, it is found without the index.
func (i *Iterator) SeekLT(key []byte) *base.KV {
	i.err, i.back = nil, true
	if i.on && bytes.Compare(i.kv.UserKey, key) >= 0 {
		// The current entry is not before key, so the first one that is not is this one, or
		// further back. If it is the first of the block, the result is in another block.
		if pos := i.data.seek(key, beforeAll, 0); pos > 0 {
			return i.show(pos - 1)
		}
	}
	found, past := i.find(key, beforeAll)
	if !found {
		if i.err != nil {
			return i.leave()
		}
		return i.Last()
	}
	pos := i.data.n
	if !past {
		pos = i.data.seek(key, beforeAll, 0)
	}
	return i.showBefore(pos)
}

// showBefore moves to the entry before entry pos of the loaded block.
func (i *Iterator) showBefore(pos int) *base.KV {
	if pos > 0 {
		return i.show(pos - 1)
	}
	if !i.loadPrev() {
		return i.leave()
	}
	return i.show(i.data.n - 1)
}

// Next moves one entry forward. Within a block, the entry begins where the current one ends,
// so one offset is read.
func (i *Iterator) Next() *base.KV {
	if !i.on {
		return nil
	}
	if pos := i.pos + 1; pos < i.data.n {
		from := i.end
		i.pos, i.end = pos, i.data.offset(pos+1)
		return i.decode(from)
	}
	if !i.loadNext() {
		return i.leave()
	}
	return i.show(0)
}

// Prev moves one entry back.
func (i *Iterator) Prev() *base.KV {
	if !i.on {
		return nil
	}
	return i.showBefore(i.pos)
}

// Err returns the error that ended the last movement, or nil.
func (i *Iterator) Err() error { return i.err }

// Close unpins all blocks. The iterator keeps only the memory
// for Reset, and its error.
func (i *Iterator) Close() error {
	i.dropData()
	i.dropPartition()
	i.dropWindow()
	i.pass.close()
	if i.held != nil {
		i.held.Release()
	}
	*i = Iterator{key: i.key[:0], err: i.err, top: -1}
	return nil
}

// show moves to entry pos of the loaded block and returns it.
func (i *Iterator) show(pos int) *base.KV {
	i.on, i.pos, i.end = true, pos, i.data.offset(pos+1)
	return i.decode(i.data.offset(pos))
}

// decode sets kv to entry pos, which is data.b[from:i.end]. If the block has no prefix, the
// user key is a part of the block. Otherwise it is put together in i.key, which already
// begins with the prefix.
func (i *Iterator) decode(from int) *base.KV {
	e := i.data.b[from:i.end]
	n, w := int(e[0]), 1
	if n >= 0x80 {
		n, w = uvarint16(e)
	}
	suffix := e[w : w+n]
	i.kv.Value = e[w+n:]
	i.kv.Trailer = i.data.trailer(i.pos)
	if p := len(i.data.prefix); p == 0 {
		i.kv.UserKey = suffix
	} else {
		i.key = append(i.key[:p], suffix...)
		i.kv.UserKey = i.key
	}
	return &i.kv
}

// leave marks that the iterator is not on an entry, and returns nil.
func (i *Iterator) leave() *base.KV {
	i.on = false
	return nil
}

// find loads the first block whose separator is not before (key, limit). found is false if
// there is none, or if it can't be read: then err is set. past says that all entries of the
// loaded block are before the target. That happens only if the two levels of an index
// contradict each other.
func (i *Iterator) find(key []byte, limit base.Trailer) (found, past bool) {
	if i.root == nil && !i.openRoot() {
		return false, false
	}
	if i.r.foot.levels == 1 {
		ix := i.leaf.searchNear(i.near(), key, limit)
		return ix < i.leaf.n && i.load(ix), false
	}
	top := i.root.searchNear(i.top, key, limit)
	if top == i.root.n || !i.loadTop(top) {
		return false, false
	}
	ix := i.leaf.searchNear(i.near(), key, limit)
	past = ix == i.leaf.n
	return i.load(min(ix, i.leaf.n-1)), past
}

// loadNext loads the block after the current one, if necessary from the next partition. It
// returns false at the end of the table, and after an error, which is in err.
func (i *Iterator) loadNext() bool {
	if i.ix+1 < i.leaf.n {
		return i.loadOn(i.ix+1, 1)
	}
	if i.r.foot.levels == 1 || i.top+1 >= i.root.n {
		return false
	}
	return i.loadTop(i.top+1) && i.loadOn(0, 1)
}

// loadPrev loads the block before the current one. It returns false like loadNext.
func (i *Iterator) loadPrev() bool {
	if i.ix > 0 {
		return i.loadOn(i.ix-1, -1)
	}
	if i.r.foot.levels == 1 || i.top <= 0 {
		return false
	}
	return i.loadTop(i.top-1) && i.loadOn(i.leaf.n-1, -1)
}

// loadTop loads partition top, if the index has two levels and that is not the partition that
// is loaded. The data block is given up first, since ix would refer to another partition.
func (i *Iterator) loadTop(top int) bool {
	if i.r.foot.levels == 1 || i.top == top {
		return true
	}
	i.dropData()
	i.dropPartition()
	// One pass over the table needs each partition once, like the blocks.
	fill := !i.opts.NoFill && i.opts.Readahead == 0
	b, err := i.r.block(i.root.handle(top), BlockIndexPartition, fill, i.trace)
	if err != nil {
		i.err = err
		return false
	}
	i.setTop(top, b)
	return true
}

// setTop makes b, which is pinned, the partition. Requires: none is loaded, and no data block.
func (i *Iterator) setTop(top int, b *cache.Block) {
	i.pinned, i.top = b, top
	i.part = viewIndex(b.Bytes())
}

// load loads data block ix of the leaf, as part of a seek.
func (i *Iterator) load(ix int) bool { return i.loadOn(ix, 0) }

// loadOn loads data block ix of the leaf. stride is 1 or -1 if a step has come to it from its
// neighbour, and 0 after a seek. Only steps read ahead. It returns false after an error,
// which is in err.
func (i *Iterator) loadOn(ix, stride int) bool {
	if i.loaded && i.ix == ix {
		return true
	}
	i.dropData()
	var payload []byte
	var err error
	if i.opts.Readahead > 0 {
		payload, err = i.readAhead(i.leaf.handle(ix), stride)
	} else if i.block, err = i.fetch(ix, stride); err == nil {
		payload = i.block.Bytes()
	}
	if err != nil {
		i.err = err
		return false
	}
	if stride != 0 {
		prefetch.Bytes(payload[:min(len(payload), 16<<10)]) // otherwise each step would wait for a cache line
	}
	i.view(payload)
	i.loaded, i.ix = true, ix
	// The block was in the cache, so the next ones probably are too. A window is not the cache.
	if stride != 0 && i.streak == 0 && i.opts.Readahead == 0 {
		i.expect(ix, stride)
	}
	return true
}

// expect prefetches for a scan of cached blocks. It begins the second half of the cache
// lookup for the next block, and the first half for the block after that one.
func (i *Iterator) expect(ix, stride int) {
	if next := ix + stride; uint(next) < uint(i.leaf.n) {
		i.r.cache.PrefetchBlock(i.cacheKey(next))
	}
	if next := ix + 2*stride; uint(next) < uint(i.leaf.n) {
		i.r.cache.Prefetch(i.cacheKey(next))
	}
}

// view makes data a view of a block, and key begin with the block's prefix.
func (i *Iterator) view(payload []byte) {
	i.data = viewData(payload)
	i.key = append(i.key[:0], i.data.prefix...)
}

// dropData unpins the data block, if one is loaded.
func (i *Iterator) dropData() {
	if i.block != nil {
		i.block.Release()
		i.block = nil
	}
	i.loaded = false
}

// dropPartition unpins the partition, if one is loaded.
func (i *Iterator) dropPartition() {
	if i.pinned != nil {
		i.pinned.Release()
		i.pinned = nil
	}
	i.top = -1
}
