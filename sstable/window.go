package sstable

import (
	"sync"

	"github.com/shaledb/shale/internal/cache"
)

// A window is a stretch of the file in memory.
type window struct {
	b      []byte
	at     int64
	pooled *[maxAhead]byte // where b lies if it is of windows
}

const (
	// minStreak is how many neighbouring blocks an iterator reads one by one
	// before it reads ahead.
	minStreak = 2
	minAhead  = 16 << 10 // how much it reads first; twice as much each time
	maxAhead  = 128 << 10
)

var windows = sync.Pool{New: func() any { return new([maxAhead]byte) }}

// fetch returns a data block, pinned: from the cache, or from the file and
// then into the cache. A scan that finds its blocks not cached reads many of
// them at once. stride is the direction of the scan, 0 if there is none.
func (i *Iterator) fetch(h handle, stride int) (*cache.Block, error) {
	r, k := i.r, cache.Key{File: uint64(i.r.num), Offset: uint64(h.offset)}
	if b := r.cache.Get(k); b != nil {
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
	}
	b, err := i.read(h, stride)
	if err == nil && !i.opts.NoFill {
		b = r.cache.Insert(k, b)
	}
	return b, err
}

// read is fetch from the file.
func (i *Iterator) read(h handle, stride int) (*cache.Block, error) {
	if i.streak++; stride == 0 || stride != i.stride {
		i.stride, i.streak, i.want = stride, 1, minAhead
	}
	if i.streak <= minStreak || h.stored+blockTail > maxAhead || !i.scroll(h) {
		return i.r.readBlock(h, BlockData, !i.opts.NoFill, i.trace)
	}
	stored := i.ahead.cut(h)
	payload, c, err := openBlock(stored, i.r.seed, BlockData, h.offset)
	i.r.countRead(h, BlockData, i.trace)
	if err != nil {
		return nil, i.r.damage(h.offset, BlockData.String(), err)
	}
	b := i.r.alloc(h, h.raw, !i.opts.NoFill)
	if c != noCompression {
		err = i.r.expand(b.Bytes(), payload, c, h, BlockData)
	} else if err = i.r.checkPayload(payload, h, BlockData); err == nil {
		copy(b.Bytes(), payload)
	}
	if err != nil {
		b.Release()
		return nil, err
	}
	i.r.numberBlock(b.Bytes(), BlockData)
	return b, nil
}

// scroll moves the window to block h and what follows in the direction of the
// scan, unless the block is in it. It returns false if that can't be read: then
// the block is read alone, so that an error comes where it belongs.
func (i *Iterator) scroll(h handle) bool {
	if i.ahead.holds(h) {
		return true
	}
	if i.ahead.pooled == nil {
		i.ahead.pooled = windows.Get().(*[maxAhead]byte)
	}
	from, to := h.offset, h.offset+int64(h.stored+blockTail)
	if want := int64(i.want); i.stride > 0 {
		to = max(to, min(from+want, int64(i.r.props.DataBytes)))
	} else {
		from = min(from, max(to-want, 0))
	}
	i.want = min(2*i.want, maxAhead)
	i.ahead.b, i.ahead.at = i.ahead.pooled[:to-from], from
	if err := i.r.readAt(i.ahead.b, from, BlockData); err != nil {
		i.ahead.b, i.streak = nil, 0
		if i.r.retried != nil {
			i.r.retried(err)
		}
		return false
	}
	return true
}

// holds tells whether the window has all of block h.
func (w *window) holds(h handle) bool {
	from := h.offset - w.at
	return from >= 0 && from <= int64(len(w.b)-h.stored-blockTail)
}

// cut returns block h as it is in the file. Requires: w.holds(h).
func (w *window) cut(h handle) []byte {
	from := h.offset - w.at
	return w.b[from : from+int64(h.stored+blockTail)]
}

// dropWindow gives the window back.
func (i *Iterator) dropWindow() {
	if i.ahead.pooled != nil {
		windows.Put(i.ahead.pooled)
	}
	i.ahead = window{}
}

// readAhead returns the payload of a block out of a window of
// IterOptions.Readahead bytes, which it moves when the block is not in it.
func (i *Iterator) readAhead(h handle) ([]byte, error) {
	r, size := i.r, h.stored+blockTail
	if !i.ahead.holds(h) {
		want := max(size, int(min(int64(i.opts.Readahead), r.props.DataBytes-h.offset)))
		if cap(i.ahead.b) < want {
			i.ahead.b = make([]byte, want)
		}
		i.ahead = window{b: i.ahead.b[:want], at: h.offset}
		if err := r.readAt(i.ahead.b, h.offset, BlockData); err != nil {
			i.ahead.b = i.ahead.b[:0]
			return nil, err
		}
	}
	r.countRead(h, BlockData, i.trace)
	payload, c, err := openBlock(i.ahead.cut(h), r.seed, BlockData, h.offset)
	if err != nil {
		return nil, r.damage(h.offset, BlockData.String(), err)
	}
	if c == noCompression && r.seq == 0 {
		return payload, r.checkPayload(payload, h, BlockData)
	}
	b := r.cache.Alloc(h.raw)
	if c != noCompression {
		err = r.expand(b.Bytes(), payload, c, h, BlockData)
	} else if err = r.checkPayload(payload, h, BlockData); err == nil {
		copy(b.Bytes(), payload) // the window stays as the file has it
	}
	if err != nil {
		b.Release()
		return nil, err
	}
	r.numberBlock(b.Bytes(), BlockData)
	i.block = b
	return b.Bytes(), nil
}
