package sstable

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/keys"
)

// The payload of an index begins with this header. Part of the file format.
//
//	0  n, u32       4  flags, u8     5  zero, u8    6  prefix length, u16
//	8  start, u64   16 blob length, u32             20 zero, u32
//
// After it come heads (n u64), ends (n u64), lengths (n u32), keys (n+1 u32), trailers (n
// u64, if the flag is set), the prefix and the blob. The blob consists of the separators
// without their prefix. keys says where each begins in it.
//
// A small index has one level: it names the data blocks. A large one has two: the top level
// names partitions, each of which is an index of data blocks. Both levels have this form.
const (
	indexHeader   = 24
	indexTrailers = 1 // the flag: there is a trailers column
)

// An index is a view of an index payload that checkIndex has accepted. The form in the file
// is the form that is searched, so nothing is decoded. The index of a Reader is a view of
// memory that the Reader owns. A partition is a view of a cached block.
//
// Entry i of an index describes block i. Its separator is an internal key: no entry of block
// i is after it, and all entries of the next block are.
//
// Invariants, checked by checkIndex and its helper checkOrder, but for the entries of the
// blocks, which Verify checks:
//  1. separators ascend strictly, as internal keys;
//  2. heads are the first bytes of the separators without the prefix, so that integers
//     decide nearly every comparison;
//  3. blocks follow each other without a gap from start; each is longer than its tail, and
//     the last ends at or before the end that the reader gives.
type index struct {
	n        int
	start    int64
	heads    []byte
	ends     []byte
	lengths  []byte
	keys     []byte
	trailers []byte // nil: all are 0
	prefix   []byte
	blob     []byte
}

// viewIndex returns a view of b. It reads the header and finds the columns. Requires:
// checkIndex(b, ...) == nil.
func viewIndex(b []byte) index {
	x := index{
		n:     int(binary.LittleEndian.Uint32(b)),
		start: int64(binary.LittleEndian.Uint64(b[8:])),
	}
	prefix := int(binary.LittleEndian.Uint16(b[6:]))
	blob := int(binary.LittleEndian.Uint32(b[16:]))
	flags := b[4]
	b = b[indexHeader:]
	x.heads, b = b[:8*x.n], b[8*x.n:]
	x.ends, b = b[:8*x.n], b[8*x.n:]
	x.lengths, b = b[:4*x.n], b[4*x.n:]
	x.keys, b = b[:4*x.n+4], b[4*x.n+4:]
	if flags&indexTrailers != 0 {
		x.trailers, b = b[:8*x.n], b[8*x.n:]
	}
	x.prefix, b = b[:prefix], b[prefix:]
	x.blob = b[:blob]
	return x
}

// head returns the first eight bytes of separator i behind the prefix, like keys.Head.
func (x *index) head(i int) uint64 { return binary.LittleEndian.Uint64(x.heads[8*i:]) }

// end returns where block i ends, counted in bytes from start.
func (x *index) end(i int) int64 { return int64(binary.LittleEndian.Uint64(x.ends[8*i:])) }

// suffix returns separator i without the prefix. It is a part of the payload.
func (x *index) suffix(i int) []byte {
	return x.blob[binary.LittleEndian.Uint32(x.keys[4*i:]):binary.LittleEndian.Uint32(x.keys[4*i+4:])]
}

// trailer returns the trailer of separator i. Trailer 0 sorts behind all versions of a user
// key, so such a separator ends with all of them. Another trailer is only needed where the
// versions of one key are in two blocks.
func (x *index) trailer(i int) base.Trailer {
	if x.trailers == nil {
		return 0
	}
	return base.Trailer(binary.LittleEndian.Uint64(x.trailers[8*i:]))
}

// handle returns where block i is in the file.
func (x *index) handle(i int) handle {
	from := int64(0)
	if i > 0 {
		from = x.end(i - 1)
	}
	return handle{
		offset: x.start + from,
		stored: int(x.end(i)-from) - blockTail,
		raw:    int(binary.LittleEndian.Uint32(x.lengths[4*i:])),
	}
}

// search returns the first block that can hold an entry at or after (key, limit): the first
// whose separator is not before it. It returns x.n if there is none.
func (x *index) search(key []byte, limit base.Trailer) int {
	p := len(x.prefix)
	if len(key) < p || string(key[:p]) != string(x.prefix) {
		if bytes.Compare(key, x.prefix) < 0 {
			return 0
		}
		return x.n
	}
	key = key[p:]
	head := keys.Head(key)
	i := x.lowerHead(head)
	if i == x.n || x.head(i) != head {
		return i
	}
	return x.searchEqual(i, key, head, limit)
}

// searchNear is search for a key that may be near block at: in it, or in the next one. Then two
// or three comparisons find it. at may be any number, and one outside of the index means that
// nothing is known.
func (x *index) searchNear(at int, key []byte, limit base.Trailer) int {
	p := len(x.prefix)
	if uint(at) >= uint(x.n) || len(key) < p || string(key[:p]) != string(x.prefix) {
		return x.search(key, limit)
	}
	suffix := key[p:]
	head := keys.Head(suffix)
	if x.isBefore(at, suffix, head, limit) {
		if at++; at == x.n || !x.isBefore(at, suffix, head, limit) {
			return at
		}
	} else if at == 0 || x.isBefore(at-1, suffix, head, limit) {
		return at
	}
	return x.search(key, limit)
}

// isBefore is before for a suffix whose first bytes are head. Heads mostly decide.
func (x *index) isBefore(i int, suffix []byte, head uint64, limit base.Trailer) bool {
	if h := x.head(i); h != head {
		return h < head
	}
	return x.before(i, suffix, limit)
}

// lowerHead returns the first i whose head is at least head, or x.n. No branch of the loop
// depends on the keys, so the processor need not guess where the search goes.
func (x *index) lowerHead(head uint64) int {
	if x.n == 0 {
		return 0
	}
	lo, n := 0, x.n
	for n > 1 {
		half := n >> 1
		if binary.LittleEndian.Uint64(x.heads[8*(lo+half-1):]) < head {
			lo += half
		}
		n -= half
	}
	if x.head(lo) < head {
		lo++
	}
	return lo
}

// searchEqual is the rest of search where heads do not decide. It is a binary search among
// the separators from lo up that have the same head as the key.
func (x *index) searchEqual(lo int, key []byte, head uint64, limit base.Trailer) int {
	hi := x.n
	// Mostly only one separator has the head. Then one comparison is enough.
	if head < math.MaxUint64 && x.head(min(lo+1, x.n-1)) != head {
		hi = lo + 1
	}
	for lo < hi {
		mid := int(uint(lo+hi) >> 1)
		if x.head(mid) == head && x.before(mid, key, limit) {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo
}

// before reports whether separator i is before the internal key that consists of the suffix
// key and of limit.
func (x *index) before(i int, key []byte, limit base.Trailer) bool {
	c := bytes.Compare(x.suffix(i), key)
	return c < 0 || c == 0 && x.trailer(i) > limit
}

var (
	errIndexHeader = errors.New("columns do not fit the block")
	errIndexHandle = errors.New("block handle out of bounds")
	errIndexKeys   = errors.New("separator out of bounds")
)

// checkIndex checks an index payload: its columns fill it, its blocks are before end, and its
// separators ascend. It runs once, when the index is read.
func checkIndex(b []byte, end int64) error {
	if len(b) < indexHeader {
		return errIndexHeader
	}
	n := uint64(binary.LittleEndian.Uint32(b))
	flags := b[4]
	size := indexHeader + n*(8+8+4+4) + 4 +
		uint64(binary.LittleEndian.Uint16(b[6:])) + uint64(binary.LittleEndian.Uint32(b[16:]))
	if flags&indexTrailers != 0 {
		size += n * 8
	}
	start := binary.LittleEndian.Uint64(b[8:])
	if flags&^indexTrailers != 0 || b[5] != 0 || binary.LittleEndian.Uint32(b[20:]) != 0 ||
		size != uint64(len(b)) || start > uint64(end) {
		return errIndexHeader
	}
	x := viewIndex(b)
	if err := x.checkHandles(end); err != nil {
		return err
	}
	return x.checkOrder()
}

// checkPartition checks the payload of an index partition. In contrast to an index it must
// not be empty: iterators rely on that.
func checkPartition(b []byte, end int64) error {
	if err := checkIndex(b, end); err != nil {
		return err
	}
	if binary.LittleEndian.Uint32(b) == 0 {
		return errIndexHeader
	}
	return nil
}

// checkHandles checks where the blocks are. It also limits what reading one can allocate.
func (x *index) checkHandles(end int64) error {
	from := int64(0)
	for i := range x.n {
		to := x.end(i)
		if to < 0 || to > end-x.start || to-from <= blockTail || to-from-blockTail > maxStored {
			return errIndexHandle
		}
		raw := uint64(binary.LittleEndian.Uint32(x.lengths[4*i:]))
		if raw > maxStored || raw > uint64(to-from-blockTail)*maxRatio {
			return errIndexHandle
		}
		from = to
	}
	return nil
}

// checkOrder checks the separators: they are in the blob and fill it, they ascend, none is
// too long, and the heads are theirs.
func (x *index) checkOrder() error {
	from := uint32(0)
	var last []byte
	for i := 0; i <= x.n; i++ {
		at := binary.LittleEndian.Uint32(x.keys[4*i:])
		if at < from || uint64(at) > uint64(len(x.blob)) || i == 0 && at != 0 {
			return errIndexKeys
		}
		if i > 0 {
			suffix := x.blob[from:at]
			if keys.Head(suffix) != x.head(i-1) || len(x.prefix)+len(suffix) > maxKeySize {
				return errIndexKeys
			}
			if i > 1 {
				c := bytes.Compare(last, suffix)
				if c > 0 || c == 0 && x.trailer(i-2) <= x.trailer(i-1) {
					return errOutOfOrder
				}
			}
			last = suffix
		}
		from = at
	}
	if int(from) != len(x.blob) {
		return errIndexKeys
	}
	return nil
}
