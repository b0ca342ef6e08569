package sstable

import (
	"errors"
	"slices"

	"github.com/shaledb/shale/bloom"
	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/offheap"
)

// A LoadedFilter is a filter in memory, with what it knows besides keys. The two
// change together: a filter denies prefixes of which it was never told.
type LoadedFilter struct {
	filter bloom.Static
	rule   base.PrefixRule
	beside int // bytes of the filter beside the heap; 0: they are the collector's
}

// Filter returns the filter itself; nil of nil.
func (l *LoadedFilter) Filter() *bloom.Static {
	if l == nil {
		return nil
	}
	return &l.filter
}

// PrefixRule returns by which rule the filter knows prefixes.
func (l *LoadedFilter) PrefixRule() base.PrefixRule { return l.rule }

// firstUnit returns l without its second unit.
func (l *LoadedFilter) firstUnit() *LoadedFilter {
	first := &LoadedFilter{rule: l.rule}
	first.filter = *l.filter.FirstUnitIn(first.alloc(l.filter.FirstUnitBytes()))
	return first
}

// alloc returns the memory for l's filter, aligned to cache lines: l's until it
// can't be reached any more.
func (l *LoadedFilter) alloc(n int) []byte {
	b, beside := residentBytes(l, n)
	if beside {
		l.beside = n
	}
	return b
}

// abandon tells that l is not resident any more. Lookups may be under way.
func (l *LoadedFilter) abandon() {
	if l != nil {
		offheap.Abandon(l.beside)
	}
}

// residentLarge is from where on what is resident lies beside the heap, in pages of
// its own. On the heap, which grows to twice what lives there before it is
// collected, the filters and indexes of 5 GB took 230 MB more.
const residentLarge = 64 << 10

// residentBytes returns n bytes, aligned to cache lines, for owner to keep as long
// as it can be reached, and whether they lie beside the heap. See offheap.FreeAfter.
func residentBytes[T any](owner *T, n int) (b []byte, beside bool) {
	if n < residentLarge {
		return alignedBytes(n), false
	}
	b = offheap.Alloc(n)
	offheap.FreeAfter(owner, b)
	return b, true
}

// Filter returns the resident filter. Nil: there is none, every key may be in
// the table.
func (r *Reader) Filter() *bloom.Static { return r.filter.Load().Filter() }

// PrefixFilter returns the resident filter and by which rule it knows prefixes;
// the zero rule: it knows none.
func (r *Reader) PrefixFilter() (*bloom.Static, base.PrefixRule) {
	l := r.filter.Load()
	if l == nil {
		return nil, base.PrefixRule{}
	}
	return &l.filter, l.rule
}

// FilterErr says why the filter in the table is of no use, nil if it is in use,
// was not wanted or was never written.
func (r *Reader) FilterErr() error { return loadError(&r.filterErr) }

// SidecarErr says why the sidecar that Open was given is of no use, nil if it
// is in use, was not wanted or there was none.
func (r *Reader) SidecarErr() error { return loadError(&r.sidecarErr) }

// Sidecar returns where the filter in use comes from, nil: from the table.
func (r *Reader) Sidecar() *Sidecar { return r.sidecar.Load() }

// loadForOpen loads the filter for Open: from the sidecar, or if that is of no
// use from the table.
func (r *Reader) loadForOpen(t tail, o ReaderOptions) {
	r.sidecar.Store(o.Sidecar)
	if o.NoFilter {
		return
	}
	if o.Sidecar != nil {
		l, err := r.readStored(o.Sidecar, t, false)
		if err == nil {
			r.filter.Store(l)
			return
		}
		r.sidecarErr.Store(&err)
		r.sidecar.Store(nil)
	}
	l, err := r.readStored(nil, t, false)
	if err != nil {
		r.filterErr.Store(&err)
		return
	}
	r.filter.Store(l)
}

// readStored reads a filter from the sidecar, or the table if s is nil. Nil:
// there is none.
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

// ReadSidecar reads the filter of a sidecar of the table.
func (r *Reader) ReadSidecar(s *Sidecar) (*LoadedFilter, error) {
	return r.readStored(s, tail{}, false)
}

// SetSidecar makes l, which ReadSidecar has read from s, the resident filter.
// Lookups may be under way: each asks the one or the other.
func (r *Reader) SetSidecar(s *Sidecar, l *LoadedFilter) {
	r.sidecar.Store(s) // first: see LoadFilter
	r.filter.Swap(l).abandon()
}

// StoredFilter returns the filter in use as a whole, from its file unless all of
// it is resident. Nil: there is none.
func (r *Reader) StoredFilter() (*LoadedFilter, error) {
	if l := r.filter.Load(); l != nil && int64(l.filter.SizeBytes()) == r.StoredFilterBytes() {
		return l, nil
	}
	return r.readStored(r.sidecar.Load(), tail{}, false)
}

// StoredFilterBytes returns the length of the filter in use in its file.
func (r *Reader) StoredFilterBytes() int64 {
	if s := r.sidecar.Load(); s != nil {
		return s.info.Size - sidecarFooter - blockTail
	}
	return r.FilterBytes()
}

// LoadFilter reads the filter in use, or its first unit, from its file again, for
// a Reader that was opened without it or has dropped it or its second unit. If
// that fails, what was resident stays; if nothing was, and the filter was to come
// from a sidecar, the one in the table is used.
func (r *Reader) LoadFilter(firstUnitOnly bool) error {
	s, was := r.sidecar.Load(), r.filter.Load()
	l, err := r.readStored(s, tail{}, firstUnitOnly)
	if err != nil && s != nil && was == nil && r.sidecar.CompareAndSwap(s, nil) {
		r.sidecarErr.Store(&err)
		var ownErr error
		s = nil
		l, ownErr = r.readStored(nil, tail{}, firstUnitOnly)
		err = errors.Join(err, ownErr)
	}
	// A sidecar that was set meanwhile has the last word: it is announced before
	// its filter, so if the announcement is missed here, the filter is not.
	if l != nil && r.sidecar.Load() == s && r.filter.CompareAndSwap(was, l) {
		was.abandon()
		if s == nil {
			r.filterErr.Store(nil)
		}
	}
	return err
}

// AppendFilter appends to dst the filter as it stands in its file, all of it,
// whatever is resident, and returns the longer slice: that of the sidecar if s is
// not nil and of use, else that of the table. It appends nothing if there is none.
// The filter has been checked.
func (r *Reader) AppendFilter(dst []byte, s *Sidecar) ([]byte, error) {
	if s != nil {
		r.stats.FilterReads.Add(1)
		longer, err := s.appendFilter(dst, r.props.Keys)
		var damage *base.CorruptionError
		if err == nil || !errors.As(err, &damage) && !errors.Is(err, base.ErrFormatTooNew) {
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

// DropSecondUnit frees the memory of the filter's second unit, if it has one,
// and reports whether it did. Lookups may be under way.
func (r *Reader) DropSecondUnit() bool {
	l := r.filter.Load()
	if l == nil || l.filter.Units() < 2 || !r.filter.CompareAndSwap(l, l.firstUnit()) {
		return false
	}
	l.abandon()
	return true
}

// DropFilter frees the memory of the filter, if it is resident, and reports
// whether it was. From then on every key may be in the table.
func (r *Reader) DropFilter() bool {
	l := r.filter.Swap(nil)
	l.abandon()
	return l != nil
}

// Retire tells that no more lookups will come, so that what r has in memory can be
// freed when those under way have ended and nothing leads to r any more. They still
// get answers, from what is in memory.
func (r *Reader) Retire() {
	r.filter.Load().abandon()
	offheap.Abandon(r.beside)
}
