package sstable

import "github.com/shaledb/shale/bloom"

// This file loads what Open has left (ReaderOptions.Later) for whoever needs it first.

// What Open can leave.
const (
	leftIndex  = uint32(1)
	leftFilter = uint32(2)
)

// NeededFilter returns the filter in memory, as Filter does. If Open has left it, the first who
// asks for it loads it, and all others who ask meanwhile wait for that.
func (r *Reader) NeededFilter() *bloom.Static {
	if f := r.Filter(); f != nil || r.left.Load()&leftFilter == 0 {
		return f
	}
	if failed := r.loadLeft(leftFilter); failed && r.unread != nil {
		r.unread(r.num)
	}
	return r.Filter()
}

// neededIndex does for the index what NeededFilter does for the filter. It returns nil if the
// index is not in memory.
func (r *Reader) neededIndex() *loadedIndex {
	if x := r.index.Load(); x != nil || r.left.Load()&leftIndex == 0 {
		return x
	}
	r.loadLeft(leftIndex)
	return r.index.Load()
}

// loadLeft loads a part that Open has left. If that fails, the caller does without. The error is
// not kept: LoadIndex and LoadFilter will meet it, and say what is wrong.
func (r *Reader) loadLeft(part uint32) (failed bool) {
	defer r.beginLoad(part)()
	if r.left.Load()&part == 0 {
		return false // it was loaded meanwhile, or could not be
	}
	if part == leftIndex {
		x, err := r.readIndex(tail{})
		if err == nil {
			r.index.Store(x)
		}
		return err != nil
	}
	s := r.sidecar.Load()
	// The comparison is that of LoadFilter.
	l, err := r.readStored(s, tail{}, false)
	if err == nil && l != nil && r.sidecar.Load() == s {
		r.replaceFilter(nil, l)
	}
	return err != nil
}

// beginLoad waits until nobody else loads the part. When the caller calls end, the part is not
// left any more: not before it is there, or others would not wait for it.
func (r *Reader) beginLoad(part uint32) (end func()) {
	lock := &r.loading[part-1]
	lock.Lock()
	return func() {
		r.left.And(^part)
		lock.Unlock()
	}
}

// HasLeft reports whether Open has left something that nobody has needed so far.
func (r *Reader) HasLeft() bool { return r.left.Load() != 0 }

// LeaveNothing has lookups do without what Open has left and nobody has needed so far: there may
// be no room for it any more.
func (r *Reader) LeaveNothing() {
	if r.HasLeft() {
		r.left.Store(0)
	}
}
