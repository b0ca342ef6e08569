package sstable

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"github.com/shaledb/shale/internal/base"
)

// A BlockKind says what a block of a table holds. The numbers are part of the file format and
// of every block's checksum. They never change.
type BlockKind uint8

// The kinds of blocks. The numbers 6 to 8 are reserved: range tombstones, blob values, range filter.
const (
	BlockData           BlockKind = 1 // entries
	BlockIndex          BlockKind = 2 // where data blocks are, or partitions
	BlockIndexPartition BlockKind = 3 // where some of the data blocks are
	BlockProperties     BlockKind = 4 // Properties
	BlockFilter         BlockKind = 5 // a filter as package bloom writes it
)

// String returns the name that errors and explanations use.
func (k BlockKind) String() string {
	switch k {
	case BlockData:
		return "data block"
	case BlockIndex:
		return "index block"
	case BlockIndexPartition:
		return "index partition"
	case BlockProperties:
		return "properties"
	case BlockFilter:
		return "filter"
	}
	return fmt.Sprintf("block of kind %d", uint8(k))
}

// Every block of a file, whatever its kind, ends with the same tail of 5 bytes:
//
//	0  payload, n bytes
//	n  compression, 1 byte
//	n+1  checksum, 4 bytes
//
// The checksum covers the payload and the compression byte. It also covers the store, the
// table, the kind and the offset of the block, so that a block which was written to a wrong
// place, or is a leftover of another file, does not check.
const blockTail = 5

// maxStored limits the stored payload of a block, in bytes. It has room for the largest
// value, its key and the columns of the block.
const maxStored = maxValueSize + 1<<20

// maxRatio is the largest factor by which a block may grow when it is decompressed. Readers
// refuse more, so that a damaged handle can't make them allocate much more than the file's
// size. Part of the file format.
const maxRatio = 32

// A handle says where a block is and how large it is. Indexes and the footer consist of
// handles.
type handle struct {
	offset int64
	stored int
	raw    int
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

var (
	errChecksum   = errors.New("checksum mismatch")
	errTruncated  = errors.New("file ends too early")
	errRawLength  = errors.New("decompressed length differs from the index")
	errOutOfOrder = errors.New("keys out of order")
)

// checksumSeed returns the state of a block's checksum after the store and the table were
// added. All blocks of a table begin with it.
func checksumSeed(storeID uint64, num base.FileNum) uint32 {
	return extendChecksum(extendChecksum(0, storeID, 8), uint64(num), 8)
}

// extendChecksum adds the n low bytes of v to a crc. It does not call crc32.Update, which
// would move its argument to the heap.
func extendChecksum(crc uint32, v uint64, n int) uint32 {
	crc = ^crc
	for range n {
		crc = castagnoli[byte(crc)^byte(v)] ^ crc>>8
		v >>= 8
	}
	return ^crc
}

// blockChecksum returns the checksum of a block. body is the payload with its compression
// byte. The kind and the offset of the block are part of the checksum.
func blockChecksum(seed uint32, kind BlockKind, offset int64, body []byte) uint32 {
	crc := extendChecksum(seed, uint64(kind), 1)
	crc = extendChecksum(crc, uint64(offset), 8)
	return crc32.Update(crc, castagnoli, body)
}

// appendBlockTail appends the compression byte and the checksum to a block. Its payload is
// dst[start:], and offset is where the block will begin in the file.
func appendBlockTail(dst []byte, start int, c Compression, seed uint32, kind BlockKind, offset int64) []byte {
	dst = append(dst, byte(c))
	crc := blockChecksum(seed, kind, offset, dst[start:])
	return binary.LittleEndian.AppendUint32(dst, crc)
}

// openBlock checks the checksum of a block, b, which includes its tail. It returns the stored
// payload, which may be compressed and is a part of b.
func openBlock(b []byte, seed uint32, kind BlockKind, offset int64) ([]byte, Compression, error) {
	n := len(b) - blockTail
	if n < 0 {
		return nil, 0, errTruncated
	}
	if blockChecksum(seed, kind, offset, b[:n+1]) != binary.LittleEndian.Uint32(b[n+1:]) {
		return nil, 0, errChecksum
	}
	return b[:n:n], Compression(b[n]), nil
}
