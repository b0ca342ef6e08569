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
	b, err := buildFilter(hashes.list.all, hashes.sum, o)
	return BuiltFilter{Bytes: b, Rule: rule, prefixes: hashes.prefixes}, err
}

// collectHashes collects the hashes of the distinct user keys and their prefixes,
// and counts.
func collectHashes(ctx context.Context, it *Iterator, hashes *hashCollector) (got Properties, err error) {
	var last []byte
	for kv := it.First(); kv != nil; kv = it.Next() {
		if got.Entries%buildEvery == 0 && ctx.Err() != nil {
			return got, ctx.Err()
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
