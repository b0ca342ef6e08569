package sstable

import (
	"errors"
	"slices"

	"github.com/shaledb/shale/bloom"
	"github.com/shaledb/shale/internal/base"
)

// A LoadedFilter is a filter in memory, with what it knows besides keys. The two
// change together: a filter denies prefixes of which it was never told.
type LoadedFilter struct {
	filter bloom.Static
	rule   base.PrefixRule
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
	return &LoadedFilter{*l.filter.FirstUnit(), l.rule}
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
		l, err := r.readStored(o.Sidecar, t, o.FirstUnitOnly)
		if err == nil {
			r.filter.Store(l)
			return
		}
		r.sidecarErr.Store(&err)
		r.sidecar.Store(nil)
	}
	l, err := r.readStored(nil, t, o.FirstUnitOnly)
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
	r.filter.Store(l)
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
	if l != nil && r.sidecar.Load() == s && r.filter.CompareAndSwap(was, l) && s == nil {
		r.filterErr.Store(nil)
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
	if l == nil || l.filter.Units() < 2 {
		return false
	}
	return r.filter.CompareAndSwap(l, l.firstUnit())
}

// DropFilter frees the memory of the filter, if it is resident, and reports
// whether it was. From then on every key may be in the table.
func (r *Reader) DropFilter() bool { return r.filter.Swap(nil) != nil }
