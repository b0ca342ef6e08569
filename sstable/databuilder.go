package sstable

import (
	"encoding/binary"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/keys"
)

// keepBuffer is the largest buffer that a builder keeps for the next block, if the block before did not need more.
const keepBuffer = 1 << 20

// A dataBuilder collects the entries of one data block and encodes them. It keeps keys and
// values apart until the block is complete, because only then the prefix that all keys share
// is known.
//
// The writer calls add for each entry and size to see whether the block is full. Then it
// calls finish, and reset before the next block. The memory is used again.
type dataBuilder struct {
	tags    []byte
	entries []builtEntry
	keys    []byte // user keys, one after the other
	values  []byte

	// The prefix is computed as entries come in. Each of them can only make it shorter.
	prefix         int // length of the prefix that all keys so far share
	minSeq, maxSeq base.Seq
	out            []byte
}

// A builtEntry is an entry of a dataBuilder. Its key and its value begin where those of the
// entry before it end.
type builtEntry struct {
	trailer base.Trailer
	keyEnd  int
	valEnd  int
}

func (d *dataBuilder) empty() bool { return len(d.entries) == 0 }

// reset prepares the builder for the next block. It gives up buffers that were made large by an
// earlier block than the last one: where values are large, the next block needs them again.
func (d *dataBuilder) reset() {
	d.tags, d.entries = d.tags[:0], d.entries[:0]
	d.keys, d.values, d.out = emptied(d.keys), emptied(d.values), emptied(d.out)
}

// emptied returns b with length 0, or nil if its array is too large to be kept for what b has.
func emptied(b []byte) []byte {
	if cap(b) > keepBuffer && len(b) <= keepBuffer {
		return nil
	}
	return b[:0]
}

// add appends an entry; tag is the low byte of the key's hash. It returns its own copy of the
// key, which is valid until the first add after the next reset. So the writer can still
// compare it with the first key of the next block. Requires: the entry is after the one
// before.
func (d *dataBuilder) add(k base.InternalKey, value []byte, tag byte) []byte {
	seq := k.Seq()
	if d.empty() {
		d.prefix, d.minSeq, d.maxSeq = len(k.UserKey), seq, seq
	} else {
		if p := d.prefix; len(k.UserKey) < p || string(d.keys[:p]) != string(k.UserKey[:p]) {
			d.prefix = keys.CommonPrefix(d.keys[:p], k.UserKey)
		}
		d.minSeq, d.maxSeq = min(d.minSeq, seq), max(d.maxSeq, seq)
	}
	at := len(d.keys)
	d.tags = append(d.tags, tag)
	d.keys = append(d.keys, k.UserKey...)
	d.values = append(d.values, value...)
	d.entries = append(d.entries, builtEntry{trailer: k.Trailer, keyEnd: len(d.keys), valEnd: len(d.values)})
	return d.keys[at:]
}

// size estimates the length of the payload in bytes. It is one or two bytes too low for each
// key of more than 127 bytes.
func (d *dataBuilder) size() int {
	n := len(d.entries)
	if n == 0 {
		return 0
	}
	perEntry := 1 + 2 + d.trailerWidth() + 1
	return dataHeader + n*perEntry + len(d.keys) - (n-1)*d.prefix + len(d.values)
}

// sizeAtMost returns an upper limit of size, and is cheaper: it assumes trailers of 8 bytes
// and no common prefix.
func (d *dataBuilder) sizeAtMost() int {
	return dataHeader + len(d.entries)*(1+2+8+1) + len(d.keys) + len(d.values)
}

// trailerWidth estimates the width of the trailers. It assumes that not all entries are puts,
// so it is never 0.
func (d *dataBuilder) trailerWidth() int {
	return byteWidth(uint64(d.maxSeq-d.minSeq)<<kindBits | 1)
}

// finish encodes the block and returns its payload, which is valid until the next reset.
//
// It first computes the widths of the columns from all entries. Offsets take 2 bytes if the
// whole payload is shorter than 64 KiB, else 4. Then it fills the columns in their order.
// Requires: !d.empty().
func (d *dataBuilder) finish() []byte {
	n := len(d.entries)
	deltas, lengths, keyStart := uint64(0), n, 0
	for i := range d.entries {
		e := &d.entries[i]
		deltas |= d.delta(e.trailer)
		if suffix := e.keyEnd - keyStart - d.prefix; suffix >= 0x80 {
			lengths += uvarintLen(suffix) - 1
		}
		keyStart = e.keyEnd
	}
	tw := byteWidth(deltas)
	entries := lengths + len(d.keys) - n*d.prefix + len(d.values)
	width := 2
	if dataHeader+n*(1+2+tw)+2+d.prefix+entries > 1<<16-1 {
		width = 4
	}
	first := dataHeader + n*(1+width+tw) + width + d.prefix

	// Each trailer is written with a store of 8 bytes. The bytes behind its width are
	// overwritten by the next trailer, or by the prefix and the entries, which are written
	// later. The 8 bytes behind size are room for the last of these stores.
	size := first + entries
	if cap(d.out) < size+8 {
		d.out = make([]byte, max(size+8, 2*cap(d.out)))
	}
	out := d.out[:size+8]
	binary.LittleEndian.PutUint32(out, uint32(n))
	out[4], out[5] = byte(width), byte(tw)
	binary.LittleEndian.PutUint16(out[6:], uint16(d.prefix))
	binary.LittleEndian.PutUint64(out[8:], uint64(d.minSeq))
	offsets := dataHeader + copy(out[dataHeader:], d.tags)
	trailer := offsets + (n+1)*width
	for i := range d.entries {
		binary.LittleEndian.PutUint64(out[trailer:], d.delta(d.entries[i].trailer))
		trailer += tw
	}
	copy(out[trailer:], d.keys[:d.prefix])
	d.putEntries(out, offsets, width, first)
	d.out = out[:size]
	return d.out
}

// delta returns t as it is stored in the column of trailers: see kindBits.
func (d *dataBuilder) delta(t base.Trailer) uint64 {
	return uint64(t.Seq()-d.minSeq)<<kindBits | uint64(t.Kind()) ^ putBit
}

// putEntries writes the entries to out[at:], and where each begins to the column of offsets
// at out[offsets:].
func (d *dataBuilder) putEntries(out []byte, offsets, width, at int) {
	keyStart, valStart := 0, 0
	for i := range d.entries {
		offsets = putOffset(out, offsets, width, at)
		e := &d.entries[i]
		suffix := d.keys[keyStart+d.prefix : e.keyEnd]
		if len(suffix) < 0x80 {
			out[at] = byte(len(suffix))
			at++
		} else {
			at += binary.PutUvarint(out[at:], uint64(len(suffix)))
		}
		at += copy(out[at:], suffix)
		at += copy(out[at:], d.values[valStart:e.valEnd])
		keyStart, valStart = e.keyEnd, e.valEnd
	}
	putOffset(out, offsets, width, at)
}

// putOffset writes v, in width bytes, to out[at:]. It returns where the next offset goes.
func putOffset(out []byte, at, width, v int) int {
	if width == 2 {
		binary.LittleEndian.PutUint16(out[at:], uint16(v))
	} else {
		binary.LittleEndian.PutUint32(out[at:], uint32(v))
	}
	return at + width
}

// uvarintLen returns the number of bytes of n as a varint.
func uvarintLen(n int) int {
	w := 1
	for ; n >= 0x80; n >>= 7 {
		w++
	}
	return w
}
