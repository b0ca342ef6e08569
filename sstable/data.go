package sstable

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/keys"
)

// The header of a data block's payload. Part of the file format.
//
//	0  n, u32             4  offset width, u8    5  trailer width, u8
//	6  prefix length, u16 8  smallest sequence number, u64
//
// Behind it: tags (n bytes), offsets (n+1), trailers (n), prefix, entries.
const (
	dataHeader = 16
	dataSeq    = 8 // where the smallest sequence number stands
)

// A trailer in the column is (seq - smallest)<<4 | kind^putBit: a put, the
// commonest kind, of the smallest sequence number is 0.
const (
	kindBits = 4
	putBit   = uint64(base.KindPut)
)

// A dataBlock is a view on the payload of a data block that checkData has
// accepted. Methods trust the structure; Go's own bounds checks stay behind
// them.
type dataBlock struct {
	b        []byte // the payload, perhaps with bytes behind it
	n        int
	offsets  int // where the columns begin in b
	trailers int
	wide     bool // offsets of 4 bytes instead of 2
	tw       int  // width of a trailer
	prefix   []byte
	minSeq   uint64
}

// viewData reads the header.
// Requires: checkData(payload) == nil.
func viewData(b []byte) dataBlock {
	_ = b[dataHeader-1]
	d := dataBlock{
		b:       b,
		n:       int(binary.LittleEndian.Uint32(b)),
		wide:    b[4] == 4,
		tw:      int(b[5]),
		minSeq:  binary.LittleEndian.Uint64(b[8:]),
		offsets: dataHeader,
	}
	d.offsets += d.n
	d.trailers = d.offsets + (d.n+1)*int(b[4])
	p := d.trailers + d.n*d.tw
	d.prefix = b[p : p+int(binary.LittleEndian.Uint16(b[6:]))]
	return d
}

// offset returns where entry i begins; offset(n) is the end of the payload.
func (d *dataBlock) offset(i int) int {
	if d.wide {
		return int(binary.LittleEndian.Uint32(d.b[d.offsets+4*i:]))
	}
	return int(binary.LittleEndian.Uint16(d.b[d.offsets+2*i:]))
}

// entry returns the suffix and the value of entry i.
func (d *dataBlock) entry(i int) (suffix, value []byte) {
	e := d.b[d.offset(i):d.offset(i+1)]
	if n := int(e[0]); n < 0x80 {
		return e[1 : 1+n], e[1+n:]
	}
	n, w := uvarint16(e)
	return e[w : w+n], e[w+n:]
}

// suffix returns the user key of entry i without the prefix, and what follows
// it up to the end of the block.
func (d *dataBlock) suffix(i int) []byte {
	e := d.b[d.offset(i):]
	if n := int(e[0]); n < 0x80 {
		return e[1 : 1+n]
	}
	n, w := uvarint16(e)
	return e[w : w+n]
}

// uvarint16 reads a varint of two or three bytes: the length of a long
// suffix.
func uvarint16(e []byte) (n, width int) {
	v, w := binary.Uvarint(e)
	return int(v), w
}

// trailer returns the trailer of entry i.
func (d *dataBlock) trailer(i int) base.Trailer {
	if d.tw == 0 {
		return base.Trailer(d.minSeq<<8 | putBit)
	}
	return trailerOf(d.b, d.trailers, i, d.tw)
}

// uintN reads the little-endian number of n <= 8 bytes at b[at:].
func uintN(b []byte, at, n int) uint64 {
	if len(b)-at >= 8 {
		return binary.LittleEndian.Uint64(b[at:]) << (64 - 8*uint(n)) >> (64 - 8*uint(n))
	}
	var v uint64
	for i := n - 1; i >= 0; i-- {
		v = v<<8 | uint64(b[at+i])
	}
	return v
}

// lookIn finds the newest version of key whose trailer is at most limit in a
// block's payload. It goes by the tags: versions of one key have the same tag
// and stand newest first.
//
// Of a payload that checkData did not accept, or that changes meanwhile, the
// answer is nonsense; but nothing outside of b is read, and it ends.
func lookIn(b, key []byte, tag byte, limit base.Trailer) (value []byte, trailer base.Trailer, found bool) {
	if len(b) < dataHeader {
		return nil, 0, false
	}
	head := binary.LittleEndian.Uint64(b)
	n, wide, tw, p := int(uint32(head)), byte(head>>32) == 4, int(byte(head>>40)), int(head>>48)
	width := 2
	if wide {
		width = 4
	}
	if n < 0 || n > len(b) || tw > 8 {
		return nil, 0, false
	}
	offsets := dataHeader + n
	trailers := offsets + (n+1)*width
	prefix := trailers + n*tw
	if prefix+p > len(b) || len(key) < p || string(key[:p]) != string(b[prefix:prefix+p]) {
		return nil, 0, false
	}
	key = key[p:]
	tags := b[dataHeader:offsets]
	for i := 0; ; i++ {
		j := bytes.IndexByte(tags[i:], tag)
		if j < 0 {
			return nil, 0, false
		}
		i += j
		var from, to int
		if wide {
			at := b[offsets+4*i:][:8]
			from, to = int(binary.LittleEndian.Uint32(at)), int(binary.LittleEndian.Uint32(at[4:]))
		} else {
			at := binary.LittleEndian.Uint32(b[offsets+2*i:])
			from, to = int(uint16(at)), int(at>>16)
		}
		if from >= to || to > len(b) || from < 0 {
			return nil, 0, false
		}
		e := b[from:to]
		k, w := int(e[0]), 1
		if k >= 0x80 {
			k, w = uvarint16(e)
		}
		if k != len(key) || w <= 0 || k > len(e)-w || string(e[w:w+k]) != string(key) {
			continue
		}
		trailer := trailerOf(b, trailers, i, tw)
		if trailer <= limit {
			return e[w+k:], trailer, true
		}
	}
}

// trailerOf returns trailer i of the column of a payload that begins at column.
func trailerOf(b []byte, column, i, tw int) base.Trailer {
	minSeq := binary.LittleEndian.Uint64(b[8:])
	if tw == 0 {
		return base.Trailer(minSeq<<8 | putBit)
	}
	v := uintN(b, column+i*tw, tw)
	return base.Trailer((minSeq+v>>kindBits)<<8 | (v&(1<<kindBits-1) ^ putBit))
}

// seek returns the index of the first entry at or after (key, limit) among
// those from lo on, n if there is none.
// Requires: entries before lo are before (key, limit).
func (d *dataBlock) seek(key []byte, limit base.Trailer, lo int) int {
	p := len(d.prefix)
	if len(key) < p || string(key[:p]) != string(d.prefix) {
		if bytes.Compare(key, d.prefix) < 0 {
			return lo
		}
		return d.n
	}
	return d.seekWithin(key[p:], keys.Head(key[p:]), limit, lo, d.n)
}

// seekWithin is seek for the suffix of a key that has the prefix, where lo and
// hi are known to enclose the entry.
func (d *dataBlock) seekWithin(key []byte, head uint64, limit base.Trailer, lo, hi int) int {
	for n := hi - lo + 1; hi-lo < n; {
		n = hi - lo
		lo, hi = d.narrow(head, lo, hi)
	}
	for lo < hi {
		mid := int(uint(lo+hi) >> 1)
		if d.before(mid, key, limit) {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo
}

// probes is how many entries narrow looks at. Their cache misses overlap, where
// those of a binary search wait for each other: eight parts in the time of two.
const probes = 7

// narrow makes the range smaller in which the first entry at or after a key
// lies, hi included, by the first eight bytes of the key's suffix. If many
// entries have those it may stay as it is.
func (d *dataBlock) narrow(head uint64, lo, hi int) (int, int) {
	if lo >= hi {
		return lo, hi
	}
	step := (hi-lo)/(probes+1) + 1
	var below, upTo int // probes whose head is less, and not greater
	for i := lo + step - 1; i < hi; i += step {
		h := d.head(i)
		if h < head {
			below++
		}
		if h <= head {
			upTo++
		}
	}
	return lo + below*step, min(lo+(upTo+1)*step-1, hi)
}

// head returns the first eight bytes of entry i's suffix, like keys.Head.
func (d *dataBlock) head(i int) uint64 {
	at := d.offset(i)
	n := uint(d.b[at])
	if n >= 0x80 || at+9 > len(d.b) {
		return keys.Head(d.suffix(i))
	}
	head := binary.BigEndian.Uint64(d.b[at+1:])
	if n < 8 {
		head = head >> (64 - 8*n) << (64 - 8*n)
	}
	return head
}

// before tells whether entry i is before the internal key of the suffix key
// and limit.
func (d *dataBlock) before(i int, key []byte, limit base.Trailer) bool {
	c := bytes.Compare(d.suffix(i), key)
	return c < 0 || c == 0 && d.trailer(i) > limit
}

var (
	errDataHeader = errors.New("header does not fit the block")
	errDataEntry  = errors.New("entry out of bounds")
	errDataSeq    = errors.New("sequence number out of range")
)

// checkData checks the structure of a data block's payload: columns and
// entries lie within it, all kinds are known. It runs once, when the block is
// read, so that the hot paths do not have to.
func checkData(b []byte) error {
	if len(b) < dataHeader {
		return errDataHeader
	}
	n := uint64(binary.LittleEndian.Uint32(b))
	width, tw := uint64(b[4]), uint64(b[5])
	prefix := uint64(binary.LittleEndian.Uint16(b[6:]))
	if n == 0 || tw > 8 || !(width == 2 && len(b) <= 1<<16-1 || width == 4) {
		return errDataHeader
	}
	// n < 2^32 and the factor below 14: no overflow.
	first := dataHeader + n*(1+width+tw) + width + prefix
	if first > uint64(len(b)) {
		return errDataHeader
	}
	d := viewData(b)
	if uint64(d.offset(0)) != first || d.offset(d.n) != len(b) {
		return errDataEntry
	}
	if err := d.checkEntries(int(first)); err != nil {
		return err
	}
	return d.checkTrailers()
}

func (d *dataBlock) checkEntries(from int) error {
	for i := range d.n {
		to := d.offset(i + 1)
		if to <= from || to > len(d.b) {
			return errDataEntry
		}
		e := d.b[from:to]
		n, w := uint64(e[0]), 1
		if n >= 0x80 {
			n, w = binary.Uvarint(e)
		}
		if w <= 0 || n > uint64(len(e)-w) || n > uint64(maxKeySize-len(d.prefix)) {
			return errDataEntry
		}
		from = to
	}
	return nil
}

func (d *dataBlock) checkTrailers() error {
	if d.minSeq > uint64(base.MaxSeq) {
		return errDataSeq
	}
	if d.tw == 0 {
		return nil
	}
	for i := range d.n {
		v := uintN(d.b, d.trailers+i*d.tw, d.tw)
		if v>>kindBits > uint64(base.MaxSeq)-d.minSeq {
			return errDataSeq
		}
		if kind := base.Kind(v&(1<<kindBits-1) ^ putBit); kind > base.KindPut {
			return errUnknownKind(kind)
		}
	}
	return nil
}

func errUnknownKind(kind base.Kind) error {
	return fmt.Errorf("%w (entry of kind %d)", base.ErrFormatTooNew, uint8(kind))
}

// byteWidth returns how many bytes v takes.
func byteWidth(v uint64) int { return (bits.Len64(v) + 7) / 8 }
