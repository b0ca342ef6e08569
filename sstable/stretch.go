package sstable

import (
	"bytes"
	"encoding/binary"

	"github.com/shaledb/shale/internal/base"
)

// A stretch is a part of a data block that a reader of a store goes through entry by entry without a
// look at anything else. Each of its entries is a put that the reader sees, and the only version that
// the block has of its key. The caller knows a key that bounds the stretch: up to there no other table
// or memtable has an entry. Most stretches lie in tables of the last level, where all versions have the
// same sequence number.
//
// The caller asks how long the stretch is, steps through it, and calls Settle. In between it calls no
// other method of the Iterator.

// StretchUp returns the length of a stretch behind the current entry, whose keys are less than bound;
// nil: there is no bound. Requires: there is a current entry.
func (i *Iterator) StretchUp(bound []byte, seq base.Seq) int {
	from, end := i.pos+1, i.data.n
	if bound != nil {
		end = i.data.seek(bound, beforeAll, from)
	}
	to := from
	for to < end && i.alone(to, seq) {
		to++
	}
	return to - from
}

// StretchDown returns the length of a stretch whose first entry is the current one, and which goes
// back. Its keys are greater than bound. The first entry of the block is left out, since the block
// before it may have a newer version of its key. Requires: there is a current entry.
func (i *Iterator) StretchDown(bound []byte, seq base.Seq) int {
	end := max(1, i.data.seek(bound, 0, 0))
	to := i.pos
	for to >= end && i.alone(to, seq) {
		to--
	}
	n := i.pos - to
	if n > 0 {
		i.pos++ // the first step comes back to it
	}
	return n
}

// alone reports whether entry at is a put that is visible at seq, and of another user key than the
// entry before it. Requires: at > 0.
func (i *Iterator) alone(at int, seq base.Seq) bool {
	d := &i.data
	t := d.trailer(at)
	return t.Kind() == base.KindPut && t.Seq() <= seq && (d.tw == 0 || !bytes.Equal(d.suffix(at), d.suffix(at-1)))
}

// Step moves one entry on in the stretch, up if by is 1 and down if it is -1. It returns the user key
// and the value of the entry. key is a key of the block, whose memory the result takes over. The value
// is a part of the block.
func (i *Iterator) Step(by int, key []byte) (next, value []byte) {
	i.pos += by
	d := &i.data
	var from, to int
	if d.wide {
		from, to = d.offset(i.pos), d.offset(i.pos+1)
	} else {
		at := binary.LittleEndian.Uint32(d.b[d.offsets+2*i.pos:])
		from, to = int(uint16(at)), int(at>>16)
	}
	e := d.b[from:to]
	n, w := int(e[0]), 1
	if n >= 0x80 {
		n, w = uvarint16(e)
	}
	return append(key[:len(d.prefix)], e[w:w+n]...), e[w+n:]
}

// Settle ends a stretch: the last entry that Step has returned becomes the current one.
func (i *Iterator) Settle() *base.KV { return i.show(i.pos) }
