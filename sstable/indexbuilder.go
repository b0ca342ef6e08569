package sstable

import (
	"encoding/binary"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/keys"
)

// defaultPartition is the size of an index above which it has two levels.
const defaultPartition = 1 << 20

// An indexBuilder collects an entry for each block of a level below.
type indexBuilder struct {
	start    int64
	keys     []byte // separators, one after the other
	keyEnds  []int
	ends     []int64 // file offset behind each block
	lengths  []uint32
	trailers []base.Trailer
}

func (x *indexBuilder) n() int { return len(x.ends) }

// add appends a block that ends at the file offset end.
func (x *indexBuilder) add(sep []byte, t base.Trailer, end int64, raw int) {
	x.keys = append(x.keys, sep...)
	x.keyEnds = append(x.keyEnds, len(x.keys))
	x.ends = append(x.ends, end)
	x.lengths = append(x.lengths, uint32(raw))
	x.trailers = append(x.trailers, t)
}

func (x *indexBuilder) key(i int) []byte {
	from := 0
	if i > 0 {
		from = x.keyEnds[i-1]
	}
	return x.keys[from:x.keyEnds[i]]
}

// entrySize estimates what entry i takes.
func (x *indexBuilder) entrySize(i int) int { return 8 + 8 + 4 + 4 + len(x.key(i)) }

// size estimates the payload of a single index.
func (x *indexBuilder) size() int { return indexHeader + x.n()*(8+8+4+4) + len(x.keys) }

// cut returns the end of the partition that begins with entry from.
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

// payload encodes the entries [from, to).
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

// separator appends the shortest user key s with last <= s < next.
// Requires: last < next.
func separator(dst, last, next []byte) []byte {
	p := keys.CommonPrefix(last, next)
	if p == len(last) {
		return append(dst, last...) // next goes on where last ends
	}
	// last[p] < next[p], so last up to there with the byte raised is after
	// last. It is before next unless it is next.
	if last[p]+1 < next[p] || p+1 < len(next) {
		return append(append(dst, last[:p]...), last[p]+1)
	}
	for i := p + 1; i < len(last); i++ {
		if last[i] < 0xff {
			return append(append(dst, last[:i]...), last[i]+1)
		}
	}
	return append(dst, last...)
}
