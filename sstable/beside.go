package sstable

import (
	"bytes"
	"context"
	"errors"

	"github.com/shaledb/shale/bloom"
	"github.com/shaledb/shale/internal/base"
)

// buildEvery is after how many entries BuildFilter asks whether it is still
// wanted.
const buildEvery = 4096

// BuildFilter makes a filter of the table's user keys, and of their prefixes by
// rule, by reading it through as read says. It holds 8 bytes for each of them, and
// has asked the finished filter for each.
func (r *Reader) BuildFilter(ctx context.Context, read IterOptions, o bloom.StaticOptions, rule base.PrefixRule) (BuiltFilter, error) {
	hashes := newHashCollector(true)
	defer hashes.release()
	it := r.NewIteratorWith(nil, read)
	got, err := collectHashes(ctx, it, o.Hasher, rule, &hashes)
	if err = errors.Join(err, it.Close()); err != nil {
		return BuiltFilter{}, err
	}
	if got.Entries != r.props.Entries || got.Keys != r.props.Keys {
		return BuiltFilter{}, r.damage(r.foot.props.offset, BlockProperties.String(), errCounts)
	}
	b, err := buildFilter(*hashes.slot, hashes.sum, o)
	return BuiltFilter{Bytes: b, Rule: rule, Prefixes: got.Prefixes}, err
}

// collectHashes collects the hashes of the distinct user keys and prefixes, and
// counts.
func collectHashes(ctx context.Context, it *Iterator, h bloom.Hasher, rule base.PrefixRule, hashes *hashCollector) (got Properties, err error) {
	var last []byte
	for kv := it.First(); kv != nil; kv = it.Next() {
		if got.Entries%buildEvery == 0 && ctx.Err() != nil {
			return got, ctx.Err()
		}
		if got.Entries == 0 || !bytes.Equal(kv.UserKey, last) {
			last = append(last[:0], kv.UserKey...)
			got.Keys++
			hashes.add(h.Hash(last))
			if p, ok := hashes.prefixes.next(rule, last); ok {
				got.Prefixes++
				hashes.add(base.PrefixHash(h.Hash(p)))
			}
		}
		got.Entries++
	}
	return got, it.Err()
}

// A besideFilter is what Verify asks a sidecar. The zero value asks nothing.
type besideFilter struct {
	sidecar  *Sidecar
	loaded   *LoadedFilter
	prefixes prefixWalk
}

// readBeside reads the sidecar, if there is one.
func (v *verifier) readBeside(s *Sidecar) (err error) {
	if s == nil {
		return nil
	}
	v.beside.sidecar = s
	v.beside.loaded, err = v.r.ReadSidecar(s)
	return err
}

// check asks for a key, of which own is bloom.Hash, and for its prefix.
func (b *besideFilter) check(key []byte, own uint64) error {
	if b.loaded == nil {
		return nil
	}
	f := &b.loaded.filter
	if !f.MayContain(hashWith(f.Hasher(), key, own)) {
		return base.Corruption(b.sidecar.name, 0, BlockFilter.String(), errNotInFilter)
	}
	p, isNew := b.prefixes.next(b.loaded.rule, key)
	if isNew && !f.MayContain(base.PrefixHash(f.Hasher().Hash(p))) {
		return base.Corruption(b.sidecar.name, 0, BlockFilter.String(), errPrefixNotInFilter)
	}
	return nil
}
