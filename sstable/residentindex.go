package sstable

import (
	"runtime"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/cache"
	"github.com/shaledb/shale/internal/keys"
	"github.com/shaledb/shale/internal/offheap"
)

// A loadedIndex is the index of a table, or its top level, in memory that stays until nothing
// leads to the loadedIndex any more. A reader of the index keeps it reachable until it is done,
// because the memory may be off the Go heap.
type loadedIndex struct {
	index
	offHeap int // bytes of it off the Go heap: all or 0
}

// readIndex reads the index from t if it is there, else from the file, and checks it.
func (r *Reader) readIndex(t tail) (*loadedIndex, error) {
	x := new(loadedIndex)
	payload, err := r.readMeta(t, r.foot.index, BlockIndex, func(n int) []byte {
		b, off := residentBytes(x, n)
		if off {
			x.offHeap = n
		}
		return b
	})
	if err != nil {
		return nil, err
	}
	if err := checkIndex(payload, r.foot.index.offset); err != nil {
		return nil, r.damage(r.foot.index.offset, BlockIndex.String(), err)
	}
	x.index = viewIndex(payload)
	return x, nil
}

// abandon notes that x is not in use any more, so that its memory may be freed soon. Readers
// that have loaded x before may still use it; they keep it reachable. x may be nil.
func (x *loadedIndex) abandon() {
	if x != nil {
		offheap.Abandon(x.offHeap)
	}
}

// IndexBytes returns how many bytes of memory the index takes if it is in memory: all of it, or
// its top level if it has two.
func (r *Reader) IndexBytes() int64 { return int64(r.foot.index.raw) }

// IndexOnDisk returns about how many bytes of the index are not in memory, partitions included.
// Lookups read them through the cache.
func (r *Reader) IndexOnDisk() (n int64) {
	if !r.HasIndex() {
		n = r.IndexBytes()
	}
	if f := &r.foot; f.levels > 1 {
		before := r.props.DataBytes // where the partitions begin
		if f.filter.stored > 0 {
			before = f.filter.offset + int64(f.filter.stored) + blockTail
		}
		n += max(0, f.index.offset-before)
	}
	return n
}

// HasIndex reports whether the index is in memory. If it is not, lookups and iterators read it
// through the block cache, as a whole, or its top level if it has two.
func (r *Reader) HasIndex() bool { return r.index.Load() != nil }

// IndexErr returns the error of the last LoadIndex, or nil if there was none.
func (r *Reader) IndexErr() error { return loadError(&r.indexErr) }

// LoadIndex reads the index into memory that stays, if it is not there. Lookups may be under way.
func (r *Reader) LoadIndex() error {
	defer r.beginLoad(leftIndex)()
	if r.HasIndex() {
		return nil
	}
	x, err := r.readIndex(tail{})
	if err != nil {
		r.indexErr.Store(&err)
		return err
	}
	r.indexErr.Store(nil)
	r.index.Store(x)
	return nil
}

// DropIndex gives up the index in memory and reports whether there was one. Lookups that are
// under way, and iterators that are open, keep the one that they use.
func (r *Reader) DropIndex() bool {
	r.left.And(^leftIndex)
	x := r.index.Swap(nil)
	x.abandon()
	return x != nil
}

// indexBlock returns the block of the index from the cache, pinned. If it is not there, it is
// read from the file. The block must be viewed by viewIndex. n and t may be nil.
func (r *Reader) indexBlock(n *Near, t *Trace) (*cache.Block, error) {
	return r.blockNear(n, r.foot.index, BlockIndex, t)
}

// locate returns the handle of the first block that the index has for entries at or after (key,
// limit). It returns false if there is none.
func (x *loadedIndex) locate(key []byte, limit base.Trailer) (h handle, ok bool) {
	i := x.search(key, limit)
	if ok = i < x.n; ok {
		h = x.handle(i)
	}
	// The memory must not be freed before it was read.
	runtime.KeepAlive(x)
	return h, ok
}

// Place returns about what part of the table lies before key, from 0 to 1. It knows if the index is in memory.
func (r *Reader) Place(key []byte) (part float64, known bool) {
	x := r.index.Load()
	if x == nil || x.n == 0 {
		return 0, false
	}
	i := x.search(key, base.NewTrailer(base.MaxSeq, base.KindMax))
	n := x.n
	runtime.KeepAlive(x)
	return float64(i) / float64(n), true
}

// locateTop returns the handle of the first block that the index, or its top level, has for
// entries at or after (key, limit). It returns false if there is none.
func (r *Reader) locateTop(n *Near, key []byte, limit base.Trailer, t *Trace) (h handle, ok bool, err error) {
	if x := r.neededIndex(); x != nil {
		h, ok = x.locate(key, limit)
		return h, ok, nil
	}
	b, err := r.indexBlock(n, t)
	if err != nil {
		return h, false, err
	}
	x := viewIndex(b.Bytes())
	i := x.search(key, limit)
	if ok = i < x.n; ok {
		h = x.handle(i)
	}
	b.Release()
	return h, ok, nil
}

// Rank estimates which part of the table's entries comes before key, from 0 to 1. It counts
// blocks, or partitions of an index with two levels, and reads nothing from the file. It takes the
// keys for spread evenly within a block or, without an index in memory, within the table.
func (r *Reader) Rank(key []byte) float64 {
	x := r.index.Load()
	if x == nil {
		return keys.Between(r.props.Smallest, r.props.Largest, key)
	}
	// The index must not be freed while it is searched.
	defer runtime.KeepAlive(x)
	i := x.search(key, base.NewTrailer(base.MaxSeq, base.KindMax))
	if i == x.n {
		return 1
	}
	from, to := r.props.Smallest, r.props.Largest
	if i > 0 {
		from = x.separator(i - 1).UserKey
	}
	if i < x.n-1 {
		to = x.separator(i).UserKey
	}
	return (float64(i) + keys.Between(from, to, key)) / float64(x.n)
}
