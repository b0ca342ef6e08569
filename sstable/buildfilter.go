package sstable

import (
	"bytes"
	"context"
	"errors"

	"github.com/shaledb/shale/bloom"
	"github.com/shaledb/shale/internal/base"
)

// buildEvery is the number of entries after which BuildFilter looks again whether its context
// is done.
const buildEvery = 4096

// BuildFilter makes a new filter for a table that exists already. It reads all entries, in
// the way that read says, and puts their user keys, and the prefixes that rule finds in them,
// into the filter.
//
// It needs 8 bytes of memory for each key and each prefix, and that of builder, which may be
// nil. Before it returns, it has asked
// the finished filter for each of them. It fails with damage if it meets another number of
// keys or entries than the properties state: then the filter might lack a key.
func (r *Reader) BuildFilter(ctx context.Context, read IterOptions, builder *bloom.StaticBuilder, o bloom.StaticOptions, rule base.PrefixRule) (BuiltFilter, error) {
	hashes := newHashCollector(o.Hasher, rule)
	defer hashes.release()
	it := r.NewIteratorWith(nil, read)
	got, err := collectHashes(ctx, it, &hashes)
	if err = errors.Join(err, it.Close()); err != nil {
		return BuiltFilter{}, err
	}
	if got.Entries != r.props.Entries || got.Keys != r.props.Keys {
		return BuiltFilter{}, r.damage(r.foot.props.offset, BlockProperties.String(), errCounts)
	}
	b, err := buildFilter(builder, hashes.list.all, hashes.sum, o)
	return BuiltFilter{Bytes: b, Rule: rule, prefixes: hashes.prefixes}, err
}

// collectHashes adds the distinct user keys that it yields, and their prefixes, to hashes. It
// returns the number of entries and of keys. It ends early when ctx is done. The error of Err
// is checked at the end, because a failed read must not look like the end of the table.
func collectHashes(ctx context.Context, it *Iterator, hashes *hashCollector) (got Properties, err error) {
	var last []byte
	for kv := it.First(); kv != nil; kv = it.Next() {
		if got.Entries%buildEvery == 0 && ctx.Err() != nil {
			return got, base.ContextError(ctx)
		}
		if got.Entries == 0 || !bytes.Equal(kv.UserKey, last) {
			last = append(last[:0], kv.UserKey...)
			got.Keys++
			hashes.addKey(last, bloom.Hash(last))
		}
		got.Entries++
	}
	return got, it.Err()
}
