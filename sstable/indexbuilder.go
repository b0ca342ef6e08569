package sstable

import (
	"encoding/binary"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/keys"
)

// Without WriterOptions.IndexPartition an index of more than defaultIndex bytes has a second level,
// and partitions of defaultPartition. A table of 128 MiB has about 1.3 MiB of index.
const (
	defaultIndex     = 8 << 20
	defaultPartition = 1 << 20
)

// An indexBuilder collects an entry for each block of the level below: data blocks, or
// partitions. payload encodes all entries, or a part of them as a partition.
type indexBuilder struct {
	start    int64
	keys     []byte // separators, one after the other, without trailers
	keyEnds  []int
	ends     []int64 // file offset behind each block
	lengths  []uint32
	trailers []base.Trailer
}

// n returns the number of entries.
func (x *indexBuilder) n() int { return len(x.ends) }

// add appends a block that ends at the file offset end and has raw bytes when decompressed.
// sep and t are its separator. It begins where the block before ends.
func (x *indexBuilder) add(sep []byte, t base.Trailer, end int64, raw int) {
	x.keys = append(x.keys, sep...)
	x.keyEnds = append(x.keyEnds, len(x.keys))
	x.ends = append(x.ends, end)
	x.lengths = append(x.lengths, uint32(raw))
	x.trailers = append(x.trailers, t)
}

// key returns the user key of separator i.
func (x *indexBuilder) key(i int) []byte {
	from := 0
	if i > 0 {
		from = x.keyEnds[i-1]
	}
	return x.keys[from:x.keyEnds[i]]
}

// entrySize estimates the bytes that entry i takes. It ignores a common prefix.
func (x *indexBuilder) entrySize(i int) int { return 8 + 8 + 4 + 4 + len(x.key(i)) }

// size estimates the payload of an index with all entries.
func (x *indexBuilder) size() int { return indexHeader + x.n()*(8+8+4+4) + len(x.keys) }

// cut returns the end of the partition that begins with entry from: the largest that is
// within limit bytes, and at least one entry.
func (x *indexBuilder) cut(from, limit int) int {
	size := indexHeader
	for i := from; i < x.n(); i++ {
		size += x.entrySize(i)
		if size > limit && i > from {
			return i
		}
	}
	return x.n()
}

// payload encodes the entries [from, to). The first and the last separator share the prefix
// that all of them share, because they are sorted.
func (x *indexBuilder) payload(from, to int) []byte {
	n := to - from
	prefix, blob, flags := 0, 0, byte(0)
	if n > 0 {
		prefix = keys.CommonPrefix(x.key(from), x.key(to-1))
	}
	for i := from; i < to; i++ {
		blob += len(x.key(i)) - prefix
		if x.trailers[i] != 0 {
			flags = indexTrailers
		}
	}
	start := x.start
	if from > 0 {
		start = x.ends[from-1]
	}
	le := binary.LittleEndian
	out := make([]byte, 0, indexHeader+n*(8+8+4+4+8)+4+prefix+blob)
	out = le.AppendUint32(out, uint32(n))
	out = append(out, flags, 0)
	out = le.AppendUint16(out, uint16(prefix))
	out = le.AppendUint64(out, uint64(start))
	out = le.AppendUint32(out, uint32(blob))
	out = le.AppendUint32(out, 0)
	for i := from; i < to; i++ {
		out = le.AppendUint64(out, keys.Head(x.key(i)[prefix:]))
	}
	for i := from; i < to; i++ {
		out = le.AppendUint64(out, uint64(x.ends[i]-start))
	}
	for i := from; i < to; i++ {
		out = le.AppendUint32(out, x.lengths[i])
	}
	at := 0
	for i := from; i < to; i++ {
		out = le.AppendUint32(out, uint32(at))
		at += len(x.key(i)) - prefix
	}
	out = le.AppendUint32(out, uint32(at))
	if flags != 0 {
		for i := from; i < to; i++ {
			out = le.AppendUint64(out, uint64(x.trailers[i]))
		}
	}
	if n > 0 {
		out = append(out, x.key(from)[:prefix]...)
	}
	for i := from; i < to; i++ {
		out = append(out, x.key(i)[prefix:]...)
	}
	return out
}

// separator appends to dst the shortest user key that can separate two blocks. The result is
// at or after last, and before next. For example, "abc" and "adx" are separated by "ac".
// Short separators make the index small. Requires: last < next.
func separator(dst, last, next []byte) []byte {
	p := keys.CommonPrefix(last, next)
	if p == len(last) {
		return append(dst, last...) // last is a prefix of next, so nothing shorter is at or after it
	}
	// last[p] < next[p]. The common prefix with last[p]+1 behind it is after last. It is
	// before next, unless the two are the same.
	if last[p]+1 < next[p] || p+1 < len(next) {
		return append(append(dst, last[:p]...), last[p]+1)
	}
	// last[:p]+(last[p]+1) is next itself, so the result must begin with last[:p+1]. The
	// first byte behind it that can be raised is raised.
	for i := p + 1; i < len(last); i++ {
		if last[i] < 0xff {
			return append(append(dst, last[:i]...), last[i]+1)
		}
	}
	return append(dst, last...)
}
