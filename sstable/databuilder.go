package sstable

import (
	"encoding/binary"

	"github.com/shaledb/shale/internal/base"
)

// keepBuffer is the largest buffer that a builder keeps for the next block.
const keepBuffer = 1 << 20

// A dataBuilder collects the entries of one data block. Keys and values are
// kept apart until the block is complete, because only then is it known what
// prefix the keys share.
type dataBuilder struct {
	tags     []byte
	trailers []base.Trailer
	keys     []byte // user keys, one after the other
	keyEnds  []int
	values   []byte
	valEnds  []int

	prefix         int // length of what all keys share
	minSeq, maxSeq base.Seq
	out            []byte
}

func (d *dataBuilder) empty() bool { return len(d.tags) == 0 }

func (d *dataBuilder) reset() {
	d.tags, d.trailers = d.tags[:0], d.trailers[:0]
	d.keyEnds, d.valEnds = d.keyEnds[:0], d.valEnds[:0]
	d.keys, d.values, d.out = emptied(d.keys), emptied(d.values), emptied(d.out)
}

func emptied(b []byte) []byte {
	if cap(b) > keepBuffer {
		return nil
	}
	return b[:0]
}

// firstKey returns the first user key.
// Requires: !d.empty().
func (d *dataBuilder) firstKey() []byte { return d.keys[:d.keyEnds[0]] }

// add appends an entry. Entries come in order.
func (d *dataBuilder) add(k base.InternalKey, value []byte, tag byte) {
	seq := k.Seq()
	if d.empty() {
		d.prefix, d.minSeq, d.maxSeq = len(k.UserKey), seq, seq
	} else {
		d.prefix = sharedPrefix(d.firstKey()[:d.prefix], k.UserKey)
		d.minSeq, d.maxSeq = min(d.minSeq, seq), max(d.maxSeq, seq)
	}
	d.tags = append(d.tags, tag)
	d.trailers = append(d.trailers, k.Trailer)
	d.keys = append(d.keys, k.UserKey...)
	d.keyEnds = append(d.keyEnds, len(d.keys))
	d.values = append(d.values, value...)
	d.valEnds = append(d.valEnds, len(d.values))
}

// sharedPrefix returns how many bytes a and b have in common from the start.
func sharedPrefix(a, b []byte) int {
	n := min(len(a), len(b))
	if string(a[:n]) == string(b[:n]) {
		return n
	}
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}

// size estimates the payload; keys of more than 127 bytes take one or two
// bytes more than it says.
func (d *dataBuilder) size() int {
	n := len(d.tags)
	if n == 0 {
		return 0
	}
	perEntry := 1 + 2 + d.trailerWidth() + 1
	return dataHeader + n*perEntry + len(d.keys) - (n-1)*d.prefix + len(d.values)
}

// trailerWidth assumes that not all entries are alike.
func (d *dataBuilder) trailerWidth() int {
	return byteWidth(uint64(d.maxSeq-d.minSeq)<<kindBits | 1)
}

// finish returns the payload, valid until the next reset.
// Requires: !d.empty().
func (d *dataBuilder) finish() []byte {
	n := len(d.tags)
	tw := 0
	for _, t := range d.trailers {
		tw = max(tw, byteWidth(d.delta(t)))
	}
	entries := len(d.keys) - n*d.prefix + len(d.values)
	for i := range n {
		entries += uvarintLen(d.suffixLen(i))
	}
	width := 2
	if dataHeader+n*(1+2+tw)+2+d.prefix+entries > 1<<16-1 {
		width = 4
	}
	first := dataHeader + n*(1+width+tw) + width + d.prefix

	out := d.out[:0]
	if cap(out) < first+entries {
		out = make([]byte, 0, first+entries)
	}
	out = binary.LittleEndian.AppendUint32(out, uint32(n))
	out = append(out, byte(width), byte(tw))
	out = binary.LittleEndian.AppendUint16(out, uint16(d.prefix))
	out = binary.LittleEndian.AppendUint64(out, uint64(d.minSeq))
	out = append(out, d.tags...)
	out = d.appendOffsets(out, width, first)
	for _, t := range d.trailers {
		out = appendUintN(out, d.delta(t), tw)
	}
	out = append(out, d.keys[:d.prefix]...)
	d.out = d.appendEntries(out)
	return d.out
}

func (d *dataBuilder) delta(t base.Trailer) uint64 {
	return uint64(t.Seq()-d.minSeq)<<kindBits | uint64(t.Kind()) ^ putBit
}

func (d *dataBuilder) suffixLen(i int) int {
	n := d.keyEnds[i] - d.prefix
	if i > 0 {
		n -= d.keyEnds[i-1]
	}
	return n
}

func (d *dataBuilder) appendOffsets(out []byte, width, at int) []byte {
	out = appendUintN(out, uint64(at), width)
	valStart := 0
	for i, valEnd := range d.valEnds {
		n := d.suffixLen(i)
		at += uvarintLen(n) + n + valEnd - valStart
		valStart = valEnd
		out = appendUintN(out, uint64(at), width)
	}
	return out
}

func (d *dataBuilder) appendEntries(out []byte) []byte {
	keyStart, valStart := 0, 0
	for i, keyEnd := range d.keyEnds {
		valEnd := d.valEnds[i]
		suffix := d.keys[keyStart+d.prefix : keyEnd]
		out = binary.AppendUvarint(out, uint64(len(suffix)))
		out = append(out, suffix...)
		out = append(out, d.values[valStart:valEnd]...)
		keyStart, valStart = keyEnd, valEnd
	}
	return out
}

// appendUintN appends the n low bytes of v.
func appendUintN(dst []byte, v uint64, n int) []byte {
	for range n {
		dst = append(dst, byte(v))
		v >>= 8
	}
	return dst
}

func uvarintLen(n int) int {
	w := 1
	for ; n >= 0x80; n >>= 7 {
		w++
	}
	return w
}
