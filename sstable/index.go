package sstable

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/keys"
)

// The header of an index payload. Part of the file format.
//
//	0  n, u32       4  flags, u8     5  zero, u8    6  prefix length, u16
//	8  start, u64   16 blob length, u32             20 zero, u32
//
// Behind it: heads (n u64), ends (n u64), lengths (n u32), keys (n+1 u32),
// trailers (n u64 if flagged), prefix, blob.
const (
	indexHeader   = 24
	indexTrailers = 1 // the flag: there is a trailers column
)

// An index is a view on an index payload that checkIndex has accepted: the
// form in the file is the form that is searched. A resident index is a view on
// memory that its Reader owns, a partition one on a cached block.
//
// Invariants, checked by checkIndex and checkIndexOrder:
//  1. separators ascend strictly, as internal keys;
//  2. heads are the separators' first bytes, so that integers decide nearly
//     every comparison;
//  3. blocks follow each other from start, each at least blockTail long, and
//     end at or before the end that the reader gives.
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

// viewIndex reads the header and finds the columns.
// Requires: checkIndex(b, ...) == nil.
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

func (x *index) head(i int) uint64 { return binary.LittleEndian.Uint64(x.heads[8*i:]) }

func (x *index) end(i int) int64 { return int64(binary.LittleEndian.Uint64(x.ends[8*i:])) }

// suffix returns separator i without the prefix.
func (x *index) suffix(i int) []byte {
	return x.blob[binary.LittleEndian.Uint32(x.keys[4*i:]):binary.LittleEndian.Uint32(x.keys[4*i+4:])]
}

func (x *index) trailer(i int) base.Trailer {
	if x.trailers == nil {
		return 0
	}
	return base.Trailer(binary.LittleEndian.Uint64(x.trailers[8*i:]))
}

// handle returns where block i is.
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

// search returns the first block that can hold an entry at or after
// (key, limit): the first whose separator is not before it. n: none can.
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

// lowerHead returns the first i whose head is not below head. The loop has no
// branch that depends on the keys.
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

// searchEqual goes on among the separators from lo on whose head is the
// key's.
func (x *index) searchEqual(lo int, key []byte, head uint64, limit base.Trailer) int {
	hi := x.n
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

// before tells whether separator i is before the internal key of the suffix
// key and limit.
func (x *index) before(i int, key []byte, limit base.Trailer) bool {
	c := bytes.Compare(x.suffix(i), key)
	return c < 0 || c == 0 && x.trailer(i) > limit
}

var (
	errIndexHeader = errors.New("columns do not fit the block")
	errIndexHandle = errors.New("block handle out of bounds")
	errIndexKeys   = errors.New("separator out of bounds")
)

// checkIndex checks an index payload: its columns fill it, its handles lie
// before end, its separators ascend.
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

// checkPartition checks an index partition, which has at least one entry.
func checkPartition(b []byte, end int64) error {
	if err := checkIndex(b, end); err != nil {
		return err
	}
	if binary.LittleEndian.Uint32(b) == 0 {
		return errIndexHeader
	}
	return nil
}

// checkHandles also bounds what reading a block can allocate.
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
