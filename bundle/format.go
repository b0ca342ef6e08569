package bundle

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
)

// ErrDamaged says that bytes are not a bundle as this package wrote it.
var ErrDamaged = errors.New("damaged bundle")

// ErrFormatTooNew says that a later version of this package wrote the bundle.
var ErrFormatTooNew = errors.New("bundle has a newer format")

// Part of the file format, never changes. Sizes are in bytes.
const (
	magic     = "shaleBUN"
	version   = 1
	headerLen = 64
	runLen    = 8  // of a run, without its tables
	tableLen  = 32 // of a table, without its bounds
	alignment = 64 // offsets of filters are multiples of it
	maxLevel  = 255
)

// MaxKeySize is the length in bytes of the longest bound of a table, which is that
// of the longest key of a store.
const MaxKeySize = math.MaxUint16

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func checksum(b []byte) uint32 { return crc32.Checksum(b, castagnoli) }

// filterSum returns the checksum of a filter for the directory. It covers all bytes but the
// last four. Those are the filter's own checksum, and with them the result would be the
// same number for every filter.
func filterSum(b []byte) uint32 { return checksum(b[:max(len(b)-4, 0)]) }

// aligned returns the lowest multiple of alignment that is at least n.
func aligned(n uint64) uint64 { return (n + alignment - 1) &^ (alignment - 1) }

func damage(format string, args ...any) error {
	return fmt.Errorf("bundle: %w: %s", ErrDamaged, fmt.Sprintf(format, args...))
}

// A header is the first 64 bytes of a bundle:
//
//	0     8       12      16     24      32  40      48   52         56        60
//	|magic|version|crc32c1|length|storeID|seq|created|runs|dirLength|dirCRC32C|crc32c2|
//
// Numbers are little-endian; created is signed. The first checksum covers the
// bytes before it, which mean the same in every version, the last all others.
type header struct {
	length  uint64 // of the whole file
	storeID uint64
	seq     uint64
	created int64 // seconds since 1970
	runs    uint32
	dirLen  uint32 // length of the directory, which follows the header
	dirSum  uint32 // checksum of the directory
}

func (h *header) appendTo(dst []byte) []byte {
	start := len(dst)
	dst = append(dst, magic...)
	dst = binary.LittleEndian.AppendUint32(dst, version)
	dst = binary.LittleEndian.AppendUint32(dst, checksum(dst[start:]))
	dst = binary.LittleEndian.AppendUint64(dst, h.length)
	dst = binary.LittleEndian.AppendUint64(dst, h.storeID)
	dst = binary.LittleEndian.AppendUint64(dst, h.seq)
	dst = binary.LittleEndian.AppendUint64(dst, uint64(h.created))
	dst = binary.LittleEndian.AppendUint32(dst, h.runs)
	dst = binary.LittleEndian.AppendUint32(dst, h.dirLen)
	dst = binary.LittleEndian.AppendUint32(dst, h.dirSum)
	return binary.LittleEndian.AppendUint32(dst, checksum(dst[start:]))
}

// decodeHeader decodes the header at the beginning of b. It checks the magic first, then
// the version, then the rest. The length in the header is not compared with b.
func decodeHeader(b []byte) (header, error) {
	le := binary.LittleEndian
	switch {
	case len(b) < headerLen:
		return header{}, damage("%d bytes are less than a header", len(b))
	case string(b[:8]) != magic:
		return header{}, damage("it does not begin with %q", magic)
	case le.Uint32(b[12:]) != checksum(b[:12]):
		return header{}, damage("checksum of the version")
	case le.Uint32(b[8:]) > version:
		return header{}, fmt.Errorf("bundle: %w: version %d, this program knows %d", ErrFormatTooNew, le.Uint32(b[8:]), version)
	case le.Uint32(b[8:]) != version:
		return header{}, damage("version %d", le.Uint32(b[8:]))
	case le.Uint32(b[60:]) != checksum(b[:60]):
		return header{}, damage("checksum of the header")
	}
	h := header{
		length: le.Uint64(b[16:]), storeID: le.Uint64(b[24:]), seq: le.Uint64(b[32:]), created: int64(le.Uint64(b[40:])),
		runs: le.Uint32(b[48:]), dirLen: le.Uint32(b[52:]), dirSum: le.Uint32(b[56:]),
	}
	if h.length > math.MaxInt-alignment || headerLen+uint64(h.dirLen) > h.length {
		return header{}, damage("a directory of %d bytes in %d", h.dirLen, h.length)
	}
	return h, nil
}

// A tableEntry is the entry of a table in the directory:
//
//	0    8      16     24     28          30         32
//	|keys|offset|length|crc32c|smallestLen|largestLen|smallest|largest|
type tableEntry struct {
	keys              uint64
	offset, length    uint64 // of the filter in the file; both 0 if there is none
	sum               uint32 // filterSum of the filter
	smallest, largest []byte
}

func (e *tableEntry) appendTo(dst []byte) []byte {
	dst = binary.LittleEndian.AppendUint64(dst, e.keys)
	dst = binary.LittleEndian.AppendUint64(dst, e.offset)
	dst = binary.LittleEndian.AppendUint64(dst, e.length)
	dst = binary.LittleEndian.AppendUint32(dst, e.sum)
	dst = binary.LittleEndian.AppendUint16(dst, uint16(len(e.smallest)))
	dst = binary.LittleEndian.AppendUint16(dst, uint16(len(e.largest)))
	return append(append(dst, e.smallest...), e.largest...)
}

// decodeTable decodes the entry at the beginning of b and returns the bytes that follow it.
// The bounds of e share memory with b.
func decodeTable(b []byte) (e tableEntry, rest []byte, err error) {
	if len(b) < tableLen {
		return e, nil, errShort
	}
	le := binary.LittleEndian
	e = tableEntry{keys: le.Uint64(b), offset: le.Uint64(b[8:]), length: le.Uint64(b[16:]), sum: le.Uint32(b[24:])}
	n, m := int(le.Uint16(b[28:])), int(le.Uint16(b[30:]))
	b = b[tableLen:]
	if len(b) < n+m {
		return e, nil, errShort
	}
	e.smallest, e.largest = b[:n:n], b[n:n+m:n+m]
	return e, b[n+m:], nil
}

var errShort = damage("the directory ends early")
