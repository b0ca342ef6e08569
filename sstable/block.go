package sstable

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"github.com/shaledb/shale/internal/base"
)

// A BlockKind says what a block of a table is. The numbers are part of the
// file format, in every block's checksum, and never change.
type BlockKind uint8

// Kinds 6 to 8 are reserved: range tombstones, blob values, range filter.
const (
	BlockData           BlockKind = 1
	BlockIndex          BlockKind = 2
	BlockIndexPartition BlockKind = 3
	BlockProperties     BlockKind = 4
	BlockFilter         BlockKind = 5
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

// A block in a file is
//
//	0  payload, n bytes
//	n  compression, 1 byte
//	n+1  checksum, 4 bytes
const blockTail = 5

// maxStored bounds the stored payload of a block: the largest value, its key
// and the columns, with room.
const maxStored = maxValueSize + 1<<20

// maxRatio is the most that decompression may multiply a block. It bounds
// what a damaged handle can make a reader allocate. Part of the file format.
const maxRatio = 32

// A handle tells where a block is, how long its payload is in the file, and
// how long once decompressed.
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

// checksumSeed is the state of a block checksum after the store and the
// table: the part that all blocks of a table share.
func checksumSeed(storeID uint64, num base.FileNum) uint32 {
	return extendChecksum(extendChecksum(0, storeID, 8), uint64(num), 8)
}

// extendChecksum adds the n low bytes of v to a crc. crc32.Update would do, if
// it did not move its argument to the heap.
func extendChecksum(crc uint32, v uint64, n int) uint32 {
	crc = ^crc
	for range n {
		crc = castagnoli[byte(crc)^byte(v)] ^ crc>>8
		v >>= 8
	}
	return ^crc
}

// blockChecksum covers the payload with its compression byte, and the block's
// kind and place.
func blockChecksum(seed uint32, kind BlockKind, offset int64, body []byte) uint32 {
	crc := extendChecksum(seed, uint64(kind), 1)
	crc = extendChecksum(crc, uint64(offset), 8)
	return crc32.Update(crc, castagnoli, body)
}

// appendBlockTail completes a block whose payload begins at dst[start:] and
// will stand at the given offset of the file.
func appendBlockTail(dst []byte, start int, c Compression, seed uint32, kind BlockKind, offset int64) []byte {
	dst = append(dst, byte(c))
	crc := blockChecksum(seed, kind, offset, dst[start:])
	return binary.LittleEndian.AppendUint32(dst, crc)
}

// openBlock checks a block with its tail and returns the stored payload.
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
