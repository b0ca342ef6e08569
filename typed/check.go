package typed

import (
	"bytes"
	"context"
	"fmt"

	"github.com/shaledb/shale"
)

// Check reads one state of the map, all of it, and returns an error for the first key or value that does not decode, and
// for the first entry that an index lacks, has wrongly, or has twice though it is unique. Reset and Build mend indexes. An
// entry that does not decode has to be deleted before, by what Key returns.
func (m *Map[K, V]) Check(ctx context.Context, r shale.Reader) error {
	it := m.iterate(r)
	defer it.Close()
	if err := it.built(); err != nil {
		return err
	}
	err := it.walk(shale.Prefix(m.entries), func(raw, data []byte) (bool, error) {
		key, value, err := m.decode(shale.Entry{Key: raw, Value: data}, false)
		for i := 0; err == nil && i < len(m.indexes); i++ {
			err = it.checkEntry(m.indexes[i], key, raw, value)
		}
		if err == nil {
			err = ctx.Err()
		}
		return err == nil, err
	})
	for i := 0; err == nil && i < len(m.indexes); i++ {
		err = it.checkIndex(ctx, m.indexes[i])
	}
	return err
}

// checkEntry checks that the index finds an entry of the map.
func (it *iterator[K, V]) checkEntry(x indexed[K, V], key K, raw []byte, value V) error {
	all, err := x.of(raw[len(it.m.entries):], value)
	if err != nil {
		return it.m.failed(key, err)
	}
	for _, k := range all {
		found, err := it.has(k)
		if err != nil {
			return err
		}
		if !found {
			return it.m.failed(key, fmt.Errorf("index %q does not have the entry under %q", x.title(), k))
		}
	}
	return nil
}

// checkIndex checks that all that the index finds is in the map.
func (it *iterator[K, V]) checkIndex(ctx context.Context, x indexed[K, V]) error {
	var before []byte // what the index sorts by, of the last key
	return it.walk(shale.Prefix(x.area()), func(raw, _ []byte) (bool, error) {
		by, rawKey, err := x.split(raw)
		if err != nil {
			return false, err
		}
		key, _, err := it.m.keys.decode(rawKey, false)
		if err != nil {
			return false, it.m.wrap(fmt.Errorf("index %q: %q is no key of it: %w", x.title(), raw, err))
		}
		value, err := it.entry(key)
		if err != nil {
			return false, err
		}
		all, err := x.of(rawKey, value)
		switch {
		case err != nil:
			return false, it.m.failed(key, err)
		case !contains(all, raw):
			return false, it.m.failed(key, fmt.Errorf("index %q has the entry under %q, which its value does not say", x.title(), raw))
		case x.isUnique() && bytes.Equal(before, by):
			return false, it.m.failed(key, fmt.Errorf("%w %q: %q", ErrNotUnique, x.title(), by))
		}
		before = by
		return true, ctx.Err()
	})
}
