package sstable

import (
	"sync"

	"github.com/shaledb/shale/internal/cache"
)

// A window is a part of the file in memory, which contains several blocks. Its bytes are as
// they are in the file: compressed, and not checked. A block is checked when it is taken out.
type window struct {
	b      []byte
	at     int64
	pooled *[maxAhead]byte // the array of b if it is from the pool windows, else nil
}

// An iterator that steps through blocks that are not cached reads several of them with one
// call. The first reads are small, since many scans end soon.
const (
	// minStreak is the number of neighbouring blocks that an iterator reads one by one before
	// it reads ahead.
	minStreak = 2
	minAhead  = 16 << 10 // bytes of the first read ahead; each further one doubles them
	maxAhead  = 128 << 10
)

var windows = sync.Pool{New: func() any { return new([maxAhead]byte) }}

// fetch returns a data block, pinned, from the cache. If it is not there, fetch reads it from
// the file and, unless NoFill is set, puts it into the cache. stride is as in loadOn.
//
// A scan, which comes to its blocks with a stride, reads ahead if several neighbours in a row
// were not cached. Such a read takes minAhead bytes at first, twice as much each time, and at
// most maxAhead. The other blocks of the window stay out of the cache until the scan comes to
// them.
func (i *Iterator) fetch(ix, stride int) (*cache.Block, error) {
	r, h := i.r, i.leaf.handle(ix)
	if b := r.cache.Get(i.cacheKey(ix)); b != nil {
		i.streak = 0
		r.stats.CacheHits.Add(1)
		if i.trace != nil {
			i.trace.add(BlockData, h, true)
		}
		return b, nil
	}
	r.stats.CacheMisses.Add(1)
	if stride == 0 {
		i.misses++
		r.sought.Add(1)
	}
	b, err := i.read(ix, h, stride)
	if err == nil {
		b = i.keep(ix, b)
	}
	return b, err
}

// read reads a data block from the file. After minStreak neighbours in one direction it takes
// the block from the window. The steps for it are those of readBlock.
func (i *Iterator) read(ix int, h handle, stride int) (*cache.Block, error) {
	if i.streak++; stride == 0 || stride != i.stride {
		i.stride, i.streak, i.want = stride, 1, minAhead
	}
	if stride == 0 {
		// If this fails, the block is read below, and an error met again there.
		if b, err := i.tryData(ix, h); err == nil {
			return b, nil
		}
	}
	// Too early to read ahead, or the block is too large for a window, or it can't be read.
	if i.streak <= minStreak || h.stored+blockTail > maxAhead || !i.scroll(h) {
		return i.r.readBlock(h, BlockData, !i.opts.NoFill, i.trace)
	}
	stored := i.ahead.cut(h)
	payload, c, err := openBlock(stored, i.r.seed, BlockData, h.offset)
	if err != nil { // alone, it may come right from another machine
		return i.r.readBlock(h, BlockData, !i.opts.NoFill, i.trace)
	}
	i.r.countRead(h, BlockData, i.trace)
	return i.r.unpack(i.r.alloc(h, h.raw, !i.opts.NoFill), payload, c, h, BlockData)
}

// scroll makes the window contain block h, and reports whether it does. If the block is not
// in it, it reads h and what follows in the direction of the scan. If that fails it returns
// false, and the caller reads the block alone. So an error in one of the other blocks does
// not become an error of this one.
func (i *Iterator) scroll(h handle) bool {
	if i.ahead.holds(h) {
		return true
	}
	if i.ahead.pooled == nil {
		i.ahead.pooled = windows.Get().(*[maxAhead]byte)
	}
	from, to := i.r.span(h, int64(i.want), i.stride < 0)
	i.want = min(2*i.want, maxAhead)
	i.ahead.b, i.ahead.at = i.ahead.pooled[:to-from], from
	if err := i.r.readAt(i.ahead.b, from, BlockData); err != nil {
		i.ahead.b, i.streak = nil, 0
		if i.r.retried != nil {
			i.r.retried(err)
		}
		return false
	}
	// The system notices by itself that a file is read forwards, and reads ahead of the windows.
	if i.stride < 0 && i.r.try != nil && from > 0 {
		next := max(from-int64(i.want), 0)
		i.r.try.WillNeed(next, from-next)
	}
	return true
}

// span returns the part of the file that a window of want bytes takes: block h and what follows
// it, or with back what is in front of it. It contains all of h, however large that is.
func (r *Reader) span(h handle, want int64, back bool) (from, to int64) {
	from, to = h.offset, h.offset+int64(h.stored+blockTail)
	if back {
		return min(from, max(to-want, 0)), to
	}
	return from, max(to, min(from+want, int64(r.props.DataBytes)))
}

// holds reports whether the window contains all of block h.
func (w *window) holds(h handle) bool {
	from := h.offset - w.at
	return from >= 0 && from <= int64(len(w.b)-h.stored-blockTail)
}

// cut returns the stored bytes of block h, a part of the window. Requires: w.holds(h).
func (w *window) cut(h handle) []byte {
	from := h.offset - w.at
	return w.b[from : from+int64(h.stored+blockTail)]
}

// dropWindow gives the window up, and its array back to the pool.
func (i *Iterator) dropWindow() {
	if i.ahead.pooled != nil {
		windows.Put(i.ahead.pooled)
	}
	i.ahead = window{}
}

// readAhead returns the payload of a data block for an iterator with IterOptions.Readahead.
// It takes the block from a window of that many bytes, and moves the window if the block is
// not in it. stride is as in loadOn: a pass towards smaller keys reads what is in front of the
// block.
//
// The payload is a part of the window if the file has it in that form. Otherwise it is in
// i.block.
func (i *Iterator) readAhead(h handle, stride int) ([]byte, error) {
	r := i.r
	if !i.ahead.holds(h) {
		from, to := r.span(h, int64(i.opts.Readahead), stride < 0)
		src := r.src
		if s := i.streamFor(stride); s != nil {
			src, to = s, max(h.offset+int64(h.stored+blockTail), min(to, i.pass.end))
		}
		want := int(to - from)
		if cap(i.ahead.b) < want {
			i.ahead.b = make([]byte, want)
		}
		i.ahead = window{b: i.ahead.b[:want], at: from}
		if err := r.readFrom(src, i.ahead.b, from, BlockData); err != nil {
			i.ahead.b = i.ahead.b[:0]
			return nil, err
		}
	}
	payload, c, err := openBlock(i.ahead.cut(h), r.seed, BlockData, h.offset)
	if err != nil { // alone, it may come right from another machine
		if i.block, err = r.readBlock(h, BlockData, false, i.trace); err != nil {
			return nil, err
		}
		return i.block.Bytes(), nil
	}
	r.countRead(h, BlockData, i.trace)
	if c == noCompression && r.seq == 0 {
		return payload, r.checkPayload(payload, h, BlockData)
	}
	// A copy: the window must not change, or its checksums would be wrong.
	b, err := r.unpack(r.cache.Alloc(h.raw), payload, c, h, BlockData)
	if err != nil {
		return nil, err
	}
	i.block = b
	return b.Bytes(), nil
}
