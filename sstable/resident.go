package sstable

import (
	"errors"
	"slices"
	"sync/atomic"

	"github.com/shaledb/shale/bloom"
	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/offheap"
)

// A LoadedFilter is a filter in memory, together with the rule by which it knows prefixes.
// The two are replaced together, because a filter denies the prefixes that it was not given:
// to ask it by another filter's rule would give wrong answers.
type LoadedFilter struct {
	filter  bloom.Static
	rule    base.PrefixRule
	offHeap int // bytes of the filter if it is off the Go heap, else 0

	// counted is where the rule is counted as one in use; nil: nowhere.
	counted atomic.Pointer[RulesInUse]
}

// Filter returns the filter itself, and nil if l is nil.
func (l *LoadedFilter) Filter() *bloom.Static {
	if l == nil {
		return nil
	}
	return &l.filter
}

// PrefixRule returns the rule by which the filter knows prefixes. The zero rule: it knows
// none.
func (l *LoadedFilter) PrefixRule() base.PrefixRule { return l.rule }

// firstUnit returns a copy of l that has only the first unit of the filter. It takes less
// memory, and gives more false positives.
func (l *LoadedFilter) firstUnit() *LoadedFilter {
	first := &LoadedFilter{rule: l.rule}
	first.filter = *l.filter.FirstUnitIn(first.alloc(l.filter.FirstUnitBytes()))
	return first
}

// alloc returns n bytes for l's filter, aligned to cache lines. They stay until l can't be
// reached any more.
func (l *LoadedFilter) alloc(n int) []byte {
	b, off := residentBytes(l, n)
	if off {
		l.offHeap = n
	}
	return b
}

// use counts l's rule as one in use, before l becomes a reader's filter. l may be nil.
func (l *LoadedFilter) use(rules *RulesInUse) {
	if l != nil {
		rules.add(l.rule, 1)
		l.counted.Store(rules)
	}
}

// unuse undoes use. It does nothing the second time.
func (l *LoadedFilter) unuse() {
	l.counted.Swap(nil).add(l.rule, -1)
}

// abandon notes that l was replaced, so that its memory may be freed soon. Lookups that have
// loaded l before may still be using it; they keep it reachable. l may be nil.
func (l *LoadedFilter) abandon() {
	if l != nil {
		l.unuse()
		offheap.Abandon(l.offHeap)
	}
}

// residentLarge is the size in bytes from which an index or a filter is kept off the Go heap.
// On the heap, which grows to twice what lives there before it is collected, the filters and
// indexes of 5 GB took 230 MB more.
const residentLarge = 64 << 10

// residentBytes returns n bytes, aligned to cache lines, that stay until owner can't be
// reached any more. off reports whether they are off the Go heap. A slice of such bytes
// does not keep them alive; only owner does. See offheap.FreeAfter.
func residentBytes[T any](owner *T, n int) (b []byte, off bool) {
	if n < residentLarge {
		return alignedBytes(n), false
	}
	b = offheap.Alloc(n)
	offheap.FreeAfter(owner, b)
	return b, true
}

// Filter returns the filter in memory. If it is nil there is none, and every key may be in
// the table.
func (r *Reader) Filter() *bloom.Static { return r.filter.Load().Filter() }

// PrefixFilter returns the filter in memory and the rule by which it knows prefixes. The zero
// rule: it knows none. Both are of the same moment.
func (r *Reader) PrefixFilter() (*bloom.Static, base.PrefixRule) {
	l := r.filter.Load()
	if l == nil {
		return nil, base.PrefixRule{}
	}
	return &l.filter, l.rule
}

// FilterErr says why the filter in the table can't be used, for good or for now (base.Lasts). It
// is nil if that filter is in use, was not wanted or was never written.
func (r *Reader) FilterErr() error { return loadError(&r.filterErr) }

// SidecarErr says why the sidecar that Open was given can't be used, for good or for now. It is
// nil if the sidecar is in use or was not wanted, or if there was none.
func (r *Reader) SidecarErr() error { return loadError(&r.sidecarErr) }

// Sidecar returns the file that the filter in use comes from; nil: the table.
func (r *Reader) Sidecar() *Sidecar { return r.sidecar.Load() }

// loadForOpen loads the filter for Open: the one in the sidecar, or the one in the table if
// there is no sidecar or it is of no use. Errors go to FilterErr and SidecarErr. What could not
// be read for now is left to LoadFilter.
func (r *Reader) loadForOpen(t tail, o ReaderOptions) {
	r.sidecar.Store(o.Sidecar)
	if o.NoFilter {
		return
	}
	if o.Later && (o.Sidecar != nil || !t.holds(r.foot.filter)) {
		if o.Sidecar != nil || r.foot.filter.stored > 0 {
			r.left.Or(leftFilter)
		}
		return
	}
	if o.Sidecar != nil {
		l, err := r.readStored(o.Sidecar, t, false)
		if err == nil {
			l.use(r.rules)
			r.filter.Store(l)
			return
		}
		r.sidecarErr.Store(&err)
		if !base.Lasts(err) {
			return
		}
		r.sidecar.Store(nil)
	}
	l, err := r.readStored(nil, t, false)
	if err != nil {
		r.filterErr.Store(&err)
		return
	}
	l.use(r.rules)
	r.filter.Store(l)
}

// readStored reads the filter of sidecar s, or the one in the table if s is nil. With
// firstUnit it keeps only the first unit. It returns nil without an error if there is no
// filter.
func (r *Reader) readStored(s *Sidecar, t tail, firstUnit bool) (*LoadedFilter, error) {
	var l *LoadedFilter
	var err error
	if s != nil {
		r.stats.FilterReads.Add(1)
		l, err = s.read(r.props.Keys)
	} else if r.foot.filter.stored > 0 {
		l, err = r.readFilter(t)
	}
	if err == nil && l != nil && firstUnit && l.filter.Units() > 1 {
		l = l.firstUnit()
	}
	return l, err
}

// ReadSidecar reads the filter of a sidecar of this table. The filter in use stays the same:
// see SetSidecar.
func (r *Reader) ReadSidecar(s *Sidecar) (*LoadedFilter, error) {
	return r.readStored(s, tail{}, false)
}

// SetSidecar makes l, which ReadSidecar has read from s, the filter in use. Lookups may be
// under way: each uses the old filter or the new one. Both are right. If l is nil, there is no
// filter until LoadFilter.
func (r *Reader) SetSidecar(s *Sidecar, l *LoadedFilter) {
	l.use(r.rules)
	r.sidecar.Store(s) // before filter: see LoadFilter
	r.sidecarErr.Store(nil)
	r.filter.Swap(l).abandon()
}

// StoredFilter returns the whole filter in use. It takes the one in memory if that is
// complete, else it reads the file. It returns nil if there is none.
func (r *Reader) StoredFilter() (*LoadedFilter, error) {
	if l := r.filter.Load(); r.isWhole(l) {
		return l, nil
	}
	return r.readStored(r.sidecar.Load(), tail{}, false)
}

// isWhole reports whether l is the filter in use as it is in its file.
func (r *Reader) isWhole(l *LoadedFilter) bool {
	return l != nil && int64(l.filter.SizeBytes()) == r.StoredFilterBytes()
}

// StoredFilterBytes returns the length of the filter in use as it is in its file.
func (r *Reader) StoredFilterBytes() int64 {
	if s := r.sidecar.Load(); s != nil {
		return s.info.Size - sidecarFooter - blockTail
	}
	return r.FilterBytes()
}

// LoadFilter reads the filter in use, or only its first unit, from its file. It is for a
// Reader that was opened without a filter, or has dropped it or its second unit.
//
// If it fails, the filter in memory stays. If there was none, and the sidecar that it should
// come from is damaged, LoadFilter uses the one in the table instead and still returns the error.
// FilterErr and SidecarErr say then what is wrong with each. lost says that the filter that is to
// be used now is damaged, too. If it is false, another call may succeed.
func (r *Reader) LoadFilter(firstUnitOnly bool) (lost bool, err error) {
	defer r.beginLoad(leftFilter)()
	s, was := r.sidecar.Load(), r.filter.Load()
	if !firstUnitOnly && r.isWhole(was) {
		return false, nil // a lookup was faster
	}
	l, err := r.readStored(s, tail{}, firstUnitOnly)
	lost = base.Lasts(err)
	var ownErr error // of the filter in the table
	if s == nil {
		ownErr = err
	} else if base.Lasts(err) && was == nil && r.sidecar.CompareAndSwap(s, nil) {
		sidecarErr := err
		r.sidecarErr.Store(&sidecarErr)
		s = nil
		l, ownErr = r.readStored(nil, tail{}, firstUnitOnly)
		lost = base.Lasts(ownErr)
		err = errors.Join(err, ownErr)
	}
	if ownErr != nil && was == nil {
		r.filterErr.Store(&ownErr)
	}
	// SetSidecar may have run meanwhile. Its filter must stay, not the one that was read
	// here. SetSidecar stores sidecar before filter, and this line looks at them in the same
	// order. So if it does not see the new sidecar, then SetSidecar stores its filter later,
	// or has done so already and the comparison with was fails.
	if l != nil && r.sidecar.Load() == s && r.replaceFilter(was, l) {
		if s == nil {
			r.filterErr.Store(nil)
		} else {
			r.sidecarErr.Store(nil)
		}
	}
	return lost, err
}

// AppendFilter appends to dst a whole filter of the table, as it is in its file, and returns
// the longer slice. If s is not nil and can be used, this is the filter of s, else the one in
// the table. If there is none, it appends nothing. It reads the file, whatever is in memory,
// and checks what it has read.
func (r *Reader) AppendFilter(dst []byte, s *Sidecar) ([]byte, error) {
	if s != nil {
		r.stats.FilterReads.Add(1)
		longer, err := s.appendFilter(dst, r.props.Keys)
		if !base.Lasts(err) {
			return longer, err
		}
	}
	h := r.foot.filter
	if h.stored == 0 {
		return dst, nil
	}
	n := len(dst)
	dst = slices.Grow(dst, h.stored+blockTail)
	b := dst[n : n+h.stored+blockTail]
	if err := r.readAt(b, h.offset, BlockFilter); err != nil {
		return dst, err
	}
	f, err := r.openFilter(b)
	if err != nil {
		return dst[:n], err
	}
	return dst[:n+f.SizeBytes()], nil
}

// DropSecondUnit gives up the second unit of the filter, if it is in memory, and reports
// whether it did. Lookups may be under way.
func (r *Reader) DropSecondUnit() bool {
	l := r.filter.Load()
	return l != nil && l.filter.Units() > 1 && r.replaceFilter(l, l.firstUnit())
}

// replaceFilter makes l the filter in memory if was still is, and reports whether it did.
func (r *Reader) replaceFilter(was, l *LoadedFilter) bool {
	l.use(r.rules)
	if !r.filter.CompareAndSwap(was, l) {
		l.unuse()
		return false
	}
	was.abandon()
	return true
}

// DropFilter gives up the filter in memory and reports whether there was one. Afterwards
// every key may be in the table, as far as Filter knows.
func (r *Reader) DropFilter() bool {
	r.left.And(^leftFilter)
	l := r.filter.Swap(nil)
	l.abandon()
	return l != nil
}

// Retire says that no new lookups will come, so that the memory of the index and the filter
// may be freed. Lookups that are under way still get right answers. The memory is freed when
// they have ended and nothing leads to r any more.
func (r *Reader) Retire() {
	r.filter.Load().abandon()
	r.index.Load().abandon()
}
