package sstable

import (
	"bytes"
	"context"
	"errors"

	"github.com/shaledb/shale/bloom"
	"github.com/shaledb/shale/internal/base"
)

// openSidecar loads the filter from the sidecar and tells whether that is in
// use. If it is of no use, the filter in the table is as good as before.
func (r *Reader) openSidecar(o ReaderOptions) bool {
	if o.Sidecar == nil {
		return false
	}
	f, err := r.SidecarFilter(o.Sidecar)
	if err != nil {
		r.sidecarErr = err
		return false
	}
	if o.FirstUnitOnly && f.Units() > 1 {
		f = f.FirstUnit()
	}
	r.SetSidecar(o.Sidecar, f)
	return true
}

// SidecarFilter reads the filter of a sidecar of the table.
func (r *Reader) SidecarFilter(s *Sidecar) (*bloom.Static, error) {
	r.stats.FilterReads.Add(1)
	return s.readFilter(r.props.Keys)
}

// SetSidecar makes f, which SidecarFilter has read from s, the resident filter.
// Lookups may be under way: each asks the one or the other.
func (r *Reader) SetSidecar(s *Sidecar, f *bloom.Static) {
	r.sidecar.Store(s)
	r.setFilter(f, nil)
}

// Sidecar returns where the filter in use comes from, nil: from the table.
func (r *Reader) Sidecar() *Sidecar { return r.sidecar.Load() }

// SidecarErr says why the sidecar that Open was given is of no use, nil if it
// is in use or there was none.
func (r *Reader) SidecarErr() error { return r.sidecarErr }

// StoredFilter reads the filter in use from its file, as a whole, whatever of it
// is resident. Nil: there is none.
func (r *Reader) StoredFilter() (*bloom.Static, error) {
	if s := r.sidecar.Load(); s != nil {
		return r.SidecarFilter(s)
	}
	return r.verifiedFilter()
}

// StoredFilterBytes returns the length of the filter in use in its file.
func (r *Reader) StoredFilterBytes() int64 {
	if s := r.sidecar.Load(); s != nil {
		return s.info.Size - sidecarFooter - blockTail
	}
	return r.FilterBytes()
}

// buildEvery is after how many entries BuildFilter asks whether it is still
// wanted.
const buildEvery = 4096

// BuildFilter makes a filter of the table's user keys by reading it through,
// past the cache if o says so. It holds 8 bytes for each key, and has asked the
// finished filter for each.
func (r *Reader) BuildFilter(ctx context.Context, read IterOptions, o bloom.StaticOptions) ([]byte, error) {
	hashes := newHashCollector(true)
	defer hashes.release()
	it := r.NewIteratorWith(nil, read)
	n, err := collectHashes(ctx, it, o.Hasher, &hashes)
	if err = errors.Join(err, it.Close()); err != nil {
		return nil, err
	}
	if n != r.props.Entries || uint64(hashes.len()) != r.props.Keys {
		return nil, r.damage(r.foot.props.offset, BlockProperties.String(), errCounts)
	}
	return buildFilter(*hashes.slot, hashes.sum, o)
}

// collectHashes collects the hashes of the distinct user keys and returns the
// number of entries.
func collectHashes(ctx context.Context, it *Iterator, h bloom.Hasher, hashes *hashCollector) (entries uint64, err error) {
	var last []byte
	for kv := it.First(); kv != nil; kv = it.Next() {
		if entries%buildEvery == 0 && ctx.Err() != nil {
			return entries, ctx.Err()
		}
		if entries == 0 || !bytes.Equal(kv.UserKey, last) {
			hashes.add(h.Hash(kv.UserKey))
			last = append(last[:0], kv.UserKey...)
		}
		entries++
	}
	return entries, it.Err()
}

// A besideFilter is what Verify asks a sidecar. The zero value asks nothing.
type besideFilter struct {
	sidecar *Sidecar
	filter  *bloom.Static
}

// readBeside reads the sidecar, if there is one.
func (v *verifier) readBeside(s *Sidecar) (err error) {
	if s == nil {
		return nil
	}
	v.beside.sidecar = s
	v.beside.filter, err = v.r.SidecarFilter(s)
	return err
}

// check asks for a key, of which own is bloom.Hash.
func (b besideFilter) check(key []byte, own uint64) error {
	if b.filter == nil || b.filter.MayContain(hashWith(b.filter.Hasher(), key, own)) {
		return nil
	}
	return base.Corruption(b.sidecar.name, 0, BlockFilter.String(), errNotInFilter)
}
