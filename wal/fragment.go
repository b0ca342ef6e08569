package wal

import (
	"encoding/binary"
	"hash/crc32"
	"iter"

	"github.com/shaledb/shale/internal/base"
)

// A record is stored as one fragment, or as several if it does not fit into the rest of its
// block. Part of the file format, never changes: docs/FORMAT.md section 3.
//
//	0          4        6     8
//	| checksum | length | tag | synced uvarint | last seq uvarint | payload ...    full, first, seal
//	| checksum | length | tag | payload ...                                        middle, last
//
// length is the number of bytes behind the tag. The tag is the kind of the fragment and the
// mark of the log.
const (
	blockSize    = 32 << 10
	fragmentSize = 8     // header of a fragment: checksum, length and tag
	recordSize   = 9 + 8 // the most bytes that synced and last seq take
	sealPayload  = 8

	// minRoom is the number of bytes that must be left in a block for a record to begin
	// there. A seal always fits into it.
	minRoom = fragmentSize + recordSize + sealPayload
)

// The kinds of fragments. Part of the file format, never changes.
const (
	kindFull   = 1
	kindFirst  = 2
	kindMiddle = 3
	kindLast   = 4
	kindSeal   = 5

	kindMask = 7
)

// blockRoom returns how many bytes are left in the block of file offset off.
func blockRoom(off int64) int {
	return blockSize - int((off-headerSize)&(blockSize-1))
}

// A codec encodes and checks the fragments of one log. All of its checksums begin with the
// store and the log, so fragments of other logs do not check.
type codec struct {
	storeID uint64
	num     base.FileNum
	seed    uint32   // crc32c of storeID and num
	mark    uint16   // the bits of a tag that are not the kind: the same for all fragments of the log
	scratch [16]byte // for numbers that go into a checksum; a local array would escape to the heap
}

// newCodec returns the codec of log num.
func newCodec(storeID uint64, num base.FileNum) codec {
	c := codec{storeID: storeID, num: num}
	binary.LittleEndian.PutUint64(c.scratch[:], storeID)
	binary.LittleEndian.PutUint64(c.scratch[8:], uint64(num))
	c.seed = crc32.Checksum(c.scratch[:], castagnoli)
	c.mark = uint16(c.seed>>16) &^ kindMask
	return c
}

// checksum returns the checksum of a fragment at file offset off. rest is the fragment
// without its checksum.
func (c *codec) checksum(off int64, rest []byte) uint32 {
	binary.LittleEndian.PutUint64(c.scratch[:], uint64(off))
	return crc32.Update(crc32.Update(c.seed, castagnoli, c.scratch[:8]), castagnoli, rest)
}

// checksumOf is checksum for a fragment in two pieces.
func (c *codec) checksumOf(off int64, head, content []byte) uint32 {
	return crc32.Update(c.checksum(off, head), castagnoli, content)
}

// A record is a payload and the numbers that the log stores with it.
type record struct {
	synced  int64    // the log was known to be durable up to here
	lastSeq base.Seq // the last sequence number of the group that the record is in
	payload []byte
}

// appendPadding appends zeros up to the end of the block if no record can begin in what is
// left of it. dst begins at file offset off.
func appendPadding(dst []byte, off int64) []byte {
	if room := blockRoom(off + int64(len(dst))); room < minRoom {
		dst = append(dst, zeros[:room]...)
	}
	return dst
}

var zeros [minRoom]byte

// appendRecord appends r, encoded, to dst, which begins at file offset off. The offset
// matters because it is part of the checksums and decides where blocks end.
func (c *codec) appendRecord(dst []byte, off int64, r record) []byte {
	dst = appendPadding(dst, off)
	start := len(dst)
	at := off + int64(start)
	dst = appendRecordHeader(dst, r)
	room := blockRoom(at) - (len(dst) - start)
	if len(r.payload) <= room {
		dst = append(dst, r.payload...)
		c.finish(dst[start:], at, kindFull)
		return dst
	}
	dst = append(dst, r.payload[:room]...)
	c.finish(dst[start:], at, kindFirst)
	return c.appendRest(dst, off, r.payload[room:])
}

// appendRest appends the fragments of a record after its first one.
func (c *codec) appendRest(dst []byte, off int64, rest []byte) []byte {
	kind := uint16(kindMiddle)
	for kind != kindLast {
		n := blockSize - fragmentSize
		if len(rest) <= n {
			n, kind = len(rest), kindLast
		}
		start := len(dst)
		dst = append(dst, zeros[:fragmentSize]...)
		dst = append(dst, rest[:n]...)
		c.finish(dst[start:], off+int64(start), kind)
		rest = rest[n:]
	}
	return dst
}

// fragments yields the fragments of a record one by one, as a head and a part of the payload.
// Together they are the bytes of appendRecord. The head is valid until the next one.
// Requires: the record needs no padding at file offset off.
func (c *codec) fragments(off int64, r record) iter.Seq2[[]byte, []byte] {
	return func(yield func(head, content []byte) bool) {
		head := appendRecordHeader(make([]byte, 0, recordSize+fragmentSize), r)
		kind, more, rest := uint16(kindFull), uint16(kindFirst), r.payload
		for {
			content := rest
			if room := blockRoom(off) - len(head); len(content) > room {
				content, kind = rest[:room], more
			}
			rest = rest[len(content):]
			c.finishParts(head, content, off, kind)
			if !yield(head, content) || len(rest) == 0 {
				return
			}
			off += int64(len(head) + len(content))
			head, kind, more = head[:fragmentSize], kindLast, kindMiddle
		}
	}
}

// appendSeal appends the seal of a log with the given number of records to dst, which begins
// at file offset off. Requires: all bytes before off are durable, because the seal says so.
func (c *codec) appendSeal(dst []byte, off int64, records uint64, last base.Seq) []byte {
	end := off + int64(len(dst))
	dst = appendPadding(dst, off)
	start := len(dst)
	dst = appendRecordHeader(dst, record{synced: end, lastSeq: last})
	dst = binary.LittleEndian.AppendUint64(dst, records)
	c.finish(dst[start:], off+int64(start), kindSeal)
	return dst
}

// appendRecordHeader appends room for the fragment's header, which finish fills in, and then
// the numbers of r.
func appendRecordHeader(dst []byte, r record) []byte {
	dst = append(dst, zeros[:fragmentSize]...)
	dst = binary.AppendUvarint(dst, uint64(r.synced))
	return binary.AppendUvarint(dst, uint64(r.lastSeq))
}

// decodeRecordHeader decodes the numbers that a record begins with. It returns a record with
// the rest of content as its payload, and the length of the numbers. The length is 0 if there
// are no such numbers, or if they are not in their shortest form.
func decodeRecordHeader(content []byte) (r record, n int) {
	synced, n1 := binary.Uvarint(content)
	if n1 <= 0 || n1 > 1 && content[n1-1] == 0 {
		return r, 0
	}
	last, n2 := binary.Uvarint(content[n1:])
	if n = n1 + n2; n2 <= 0 || n2 > 1 && content[n-1] == 0 || n > recordSize {
		return r, 0
	}
	return record{synced: int64(synced), lastSeq: base.Seq(last), payload: content[n:]}, n
}

// finish fills in the header of fragment b, which is at file offset at.
func (c *codec) finish(b []byte, at int64, kind uint16) {
	binary.LittleEndian.PutUint16(b[4:], uint16(len(b)-fragmentSize))
	binary.LittleEndian.PutUint16(b[6:], c.mark|kind)
	binary.LittleEndian.PutUint32(b, c.checksum(at, b[4:]))
}

// finishParts is finish for a fragment in two pieces. The header is in head.
func (c *codec) finishParts(head, content []byte, at int64, kind uint16) {
	binary.LittleEndian.PutUint16(head[4:], uint16(len(head)+len(content)-fragmentSize))
	binary.LittleEndian.PutUint16(head[6:], c.mark|kind)
	binary.LittleEndian.PutUint32(head, c.checksumOf(at, head[4:], content))
}

// A fragment is a decoded fragment whose checksum was right.
type fragment struct {
	kind    uint16
	off     int64  // in the file
	content []byte // a part of the block; without the header of the fragment
}

// end returns the file offset behind f.
func (f fragment) end() int64 { return f.off + fragmentSize + int64(len(f.content)) }

// starts reports whether f begins a record. Then its content begins with the record's
// numbers.
func (f fragment) starts() bool { return f.kind != kindMiddle && f.kind != kindLast }

// record returns the record that f begins. Its payload is the part that is in f. Requires:
// f.starts().
func (f fragment) record() record {
	r, _ := decodeRecordHeader(f.content)
	return r
}

// decodeFragment decodes the fragment at position pos of block, which begins at file offset
// off. ok is false if the bytes there are no fragment of this log. The checksum comes last,
// because it is the most expensive check.
func (c *codec) decodeFragment(block []byte, off int64, pos int) (f fragment, ok bool) {
	if len(block)-pos < fragmentSize {
		return f, false
	}
	b := block[pos:]
	tag := binary.LittleEndian.Uint16(b[6:])
	n := int(binary.LittleEndian.Uint16(b[4:]))
	if tag&^kindMask != c.mark || n > len(b)-fragmentSize {
		return f, false
	}
	kind := tag & kindMask
	full := pos+fragmentSize+n == blockSize // whether it reaches the end of its block
	switch kind {
	case kindMiddle:
		ok = pos == 0 && full
	case kindLast:
		ok = pos == 0 && n > 0
	case kindFull, kindFirst, kindSeal:
		_, head := decodeRecordHeader(b[fragmentSize : fragmentSize+n])
		ok = head > 0 && blockSize-pos >= minRoom &&
			(kind != kindFirst || full) && (kind != kindSeal || n == head+sealPayload)
	}
	if !ok || binary.LittleEndian.Uint32(b) != c.checksum(off+int64(pos), b[4:fragmentSize+n]) {
		return f, false
	}
	return fragment{kind: kind, off: off + int64(pos), content: b[fragmentSize : fragmentSize+n : fragmentSize+n]}, true
}
