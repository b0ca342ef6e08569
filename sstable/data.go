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

// The payload of a data block begins with this header. Part of the file format.
//
//	0  n, u32             4  offset width, u8    5  trailer width, u8
//	6  prefix length, u16 8  smallest sequence number, u64
//
// After it come the tags (n bytes), offsets (n+1), trailers (n), the prefix and the entries.
// The last offset is the end of the payload. An entry is the length of its key's suffix, as a
// varint, the suffix, and the value up to the next entry.
const (
	dataHeader = 16
	dataSeq    = 8 // where the smallest sequence number is in the header
)

// A trailer in the column is (seq - smallest)<<4 | kind^putBit. So a put, which is the
// commonest kind, with the smallest sequence number is 0. If all trailers of a block are 0,
// the column has a width of 0 and takes no space.
const (
	kindBits = 4
	putBit   = uint64(base.KindPut)
)

// A dataBlock is a view of the payload of a data block. checkData has accepted the payload,
// so the methods trust its structure. The bounds checks of Go remain as a second line of
// defence.
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

// viewData returns a view of b. It reads the header and computes where the columns begin.
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

// entry returns the suffix and the value of entry i. Both are parts of the block.
func (d *dataBlock) entry(i int) (suffix, value []byte) {
	e := d.b[d.offset(i):d.offset(i+1)]
	if n := int(e[0]); n < 0x80 {
		return e[1 : 1+n], e[1+n:]
	}
	n, w := uvarint16(e)
	return e[w : w+n], e[w+n:]
}

// suffix returns the user key of entry i without the prefix. It reads one offset less than
// entry does, which matters to searches.
func (d *dataBlock) suffix(i int) []byte {
	e := d.b[d.offset(i):]
	if n := int(e[0]); n < 0x80 {
		return e[1 : 1+n]
	}
	n, w := uvarint16(e)
	return e[w : w+n]
}

// uvarint16 reads a varint of two or three bytes. Suffixes of 128 bytes and more have such a
// length.
func uvarint16(e []byte) (n, width int) {
	v, w := binary.Uvarint(e)
	return int(v), w
}

// trailer returns the sequence number and the kind of entry i.
func (d *dataBlock) trailer(i int) base.Trailer {
	if d.tw == 0 {
		return base.Trailer(d.minSeq<<8 | putBit)
	}
	return trailerOf(d.b, d.trailers, i, d.tw)
}

// uintN reads the little-endian number of n <= 8 bytes at b[at:]. If b is long enough it
// loads 8 bytes at once, and shifts those out that are too many.
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

// lookIn finds the newest version of key in a block's payload whose trailer is at most limit.
// The value that it returns is a part of b.
//
// It searches the tags for the key's tag, and compares keys only where a tag matches. The
// versions of one key have the same tag and are stored newest first, so the first that is
// within limit is the one.
//
// It may run on a payload that checkData did not accept, or that another goroutine changes
// meanwhile (see Reader.peek). Then its answer is meaningless, but it reads nothing outside
// of b, and it ends. For this reason it reads the header itself, and checks each offset.
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

// trailerOf returns trailer i of a payload. The column of trailers begins at b[column:], and
// each is tw bytes wide.
func trailerOf(b []byte, column, i, tw int) base.Trailer {
	minSeq := binary.LittleEndian.Uint64(b[8:])
	if tw == 0 {
		return base.Trailer(minSeq<<8 | putBit)
	}
	v := uintN(b, column+i*tw, tw)
	return base.Trailer((minSeq+v>>kindBits)<<8 | (v&(1<<kindBits-1) ^ putBit))
}

// seek returns the index of the first entry at or after (key, limit), beginning at entry lo.
// It returns d.n if there is none. Requires: all entries before lo are before (key, limit).
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

// seekWithin is seek for a key that has the prefix. key is what follows the prefix, and head
// is its first eight bytes. Requires: the result is in [lo, hi]; hi may be n.
//
// It narrows the range by heads as long as that helps. Then it is a binary search over whole
// suffixes.
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

// probes is the number of entries that narrow looks at. The processor loads them at the same
// time, while each probe of a binary search waits for the one before. So narrow cuts the
// range into eight parts in the time of two probes.
const probes = 7

// narrow makes the range [lo, hi] smaller that contains the first entry at or after a key.
// head is the first eight bytes of the key's suffix, and narrow compares nothing else. So the
// range may stay as it is if many entries have the same head.
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

// head returns the first eight bytes of entry i's suffix as a number that sorts like them. A
// shorter suffix is filled up with zeros, like in keys.Head.
func (d *dataBlock) head(i int) uint64 {
	at := d.offset(i)
	n := uint(d.b[at])
	if n >= 0x80 || at+9 > len(d.b) {
		return keys.Head(d.suffix(i))
	}
	head := binary.BigEndian.Uint64(d.b[at+1:])
	// The load took bytes of the value too. They become the zeros.
	if n < 8 {
		head = head >> (64 - 8*n) << (64 - 8*n)
	}
	return head
}

// before reports whether entry i is before the internal key that consists of the suffix key
// and of limit.
func (d *dataBlock) before(i int, key []byte, limit base.Trailer) bool {
	c := bytes.Compare(d.suffix(i), key)
	return c < 0 || c == 0 && d.trailer(i) > limit
}

var (
	errDataHeader = errors.New("header does not fit the block")
	errDataEntry  = errors.New("entry out of bounds")
	errDataSeq    = errors.New("sequence number out of range")
)

// checkData checks the structure of a data block's payload: the columns and entries lie
// within it, and all kinds are known. It runs once, when the block is read, so that lookups
// and iterators need not check again. It does not check the order of the entries or the tags.
// Verify does.
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

// checkEntries checks that the entries follow each other, that none is empty, and that no key
// is too long. from is where the first begins.
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

// checkTrailers checks that all sequence numbers and kinds are in range. An unknown kind is
// base.ErrFormatTooNew, since a newer program may write it.
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
			if err := d.checkKind(i, kind); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkKind checks entry i, which is neither a put nor a tombstone. Requires: checkEntries has
// accepted it.
func (d *dataBlock) checkKind(i int, kind base.Kind) error {
	if !kind.InTables() {
		return errUnknownKind(kind)
	}
	if _, value := d.entry(i); len(value) < base.ExpirySize {
		return errDataEntry
	}
	return nil
}

// errUnknownKind returns the error for a kind that only a newer program knows.
func errUnknownKind(kind base.Kind) error {
	return fmt.Errorf("%w (entry of kind %d)", base.ErrFormatTooNew, uint8(kind))
}

// byteWidth returns the number of bytes that v needs; 0 for 0.
func byteWidth(v uint64) int { return (bits.Len64(v) + 7) / 8 }
