package sstable

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/shaledb/shale/internal/base"
)

// A table ends with its footer. A reader finds all blocks through it. Part of the file
// format; the last 20 bytes never change, in no version.
//
//	0   filter offset, length      16  index offset, length, raw length
//	40  properties offset, length  56  table number   64  store id
//	72  file checksum, u32         76  index levels, u8, 11 zeros
//	88  footer length, u32         92  checksum, u32
//	96  version, u32               100 magic
const (
	footerSize     = 108
	footerFixed    = 20
	footerChecksum = 92
	formatVersion  = 1
	footerMagic    = "shaleSST"
	maxFooter      = 4096 // the longest footer of any version, in bytes
)

// A footer is the decoded footer of a table.
type footer struct {
	filter   handle // stored 0: no filter
	index    handle
	props    handle
	num      base.FileNum
	storeID  uint64
	checksum uint32 // of all bytes in front of the footer
	levels   int    // of the index, 1 or 2
}

// appendTo appends the encoded footer to dst. The checksum is computed last, over all the
// other fields.
func (f *footer) appendTo(dst []byte) []byte {
	start := len(dst)
	le := binary.LittleEndian
	for _, v := range []uint64{
		uint64(f.filter.offset), uint64(f.filter.stored),
		uint64(f.index.offset), uint64(f.index.stored), uint64(f.index.raw),
		uint64(f.props.offset), uint64(f.props.stored),
		uint64(f.num), f.storeID,
	} {
		dst = le.AppendUint64(dst, v)
	}
	dst = le.AppendUint32(dst, f.checksum)
	dst = append(dst, byte(f.levels), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)
	dst = le.AppendUint32(dst, footerSize)
	dst = le.AppendUint32(dst, 0)
	dst = le.AppendUint32(dst, formatVersion)
	dst = append(dst, footerMagic...)
	le.PutUint32(dst[start+footerChecksum:], footerCRC(dst[start:]))
	return dst
}

// footerCRC returns the checksum of a footer. It covers all but the checksum itself, which
// begins 16 bytes before the end in every version.
func footerCRC(b []byte) uint32 {
	n := len(b) - 16
	crc := crc32.Update(0, castagnoli, b[:n])
	return crc32.Update(crc, castagnoli, b[n+4:])
}

// Identify returns the table number and the store id that a table's footer states. It reads
// nothing else of the file, and is meant for tools that were given a file of unknown origin.
func Identify(src io.ReaderAt, size int64) (num base.FileNum, storeID uint64, err error) {
	b := make([]byte, min(size, maxFooter))
	if n, err := src.ReadAt(b, size-int64(len(b))); n < len(b) {
		return 0, 0, fmt.Errorf("sstable: identify: %w", err)
	}
	f, err := decodeFooter(b, size)
	if err != nil {
		return 0, 0, fmt.Errorf("sstable: identify: %w", err)
	}
	return f.num, f.storeID, nil
}

// Session returns the id of the session that has written a table, as its properties state it, or 0 if they state none.
// Like Identify, it reads nothing else.
func Session(src io.ReaderAt, size int64) (uint64, error) {
	fail := func(err error) (uint64, error) { return 0, fmt.Errorf("sstable: session of a table: %w", err) }
	b := make([]byte, min(size, maxFooter))
	if n, err := src.ReadAt(b, size-int64(len(b))); n < len(b) {
		return fail(err)
	}
	f, err := decodeFooter(b, size)
	if err != nil {
		return fail(err)
	}
	b = make([]byte, f.props.stored+blockTail)
	if n, err := src.ReadAt(b, f.props.offset); n < len(b) {
		return fail(err)
	}
	payload, _, err := openBlock(b, checksumSeed(f.storeID, f.num), BlockProperties, f.props.offset)
	if err != nil {
		return fail(err)
	}
	p, err := decodeProperties(payload)
	if err != nil {
		return fail(err)
	}
	return p.Session, nil
}

var (
	errMagic        = errors.New("not a table: bad magic")
	errFooterLength = errors.New("footer length out of range")
	errFooterHandle = errors.New("block handle out of bounds")
	errFooterZero   = errors.New("reserved bytes are not zero")
	errFooterLevels = errors.New("index levels out of range")
)

// decodeFooter finds and checks the footer at the end of tail, which is the end of a file of
// size bytes. The last 20 bytes, which are the same in all versions, say how long it is. The
// checksum is checked before the version. So ErrFormatTooNew means that a newer program wrote
// the footer, not that the version is damaged.
func decodeFooter(tail []byte, size int64) (*footer, error) {
	if len(tail) < footerFixed {
		return nil, errTruncated
	}
	le := binary.LittleEndian
	// The fixed end is the same in all versions, so it can be read before the version is
	// known.
	fixed := tail[len(tail)-footerFixed:]
	if string(fixed[12:]) != footerMagic {
		return nil, errMagic
	}
	length := le.Uint32(fixed)
	if length < footerFixed || length > maxFooter || int64(length) > int64(len(tail)) {
		return nil, errFooterLength
	}
	b := tail[len(tail)-int(length):]
	if le.Uint32(fixed[4:]) != footerCRC(b) {
		return nil, errChecksum
	}
	if v := le.Uint32(fixed[8:]); v != formatVersion {
		return nil, fmt.Errorf("%w (table format %d)", base.ErrFormatTooNew, v)
	}
	// In version 1 the length is known.
	if length != footerSize {
		return nil, errFooterLength
	}
	return parseFooter(b, size)
}

// parseFooter decodes a footer of version 1. It checks that the blocks that it names lie in
// front of it.
func parseFooter(b []byte, size int64) (*footer, error) {
	le := binary.LittleEndian
	u64 := func(at int) uint64 { return le.Uint64(b[at:]) }
	f := &footer{
		num:      base.FileNum(u64(56)),
		storeID:  u64(64),
		checksum: le.Uint32(b[72:]),
		levels:   int(b[76]),
	}
	if f.levels != 1 && f.levels != 2 {
		return nil, errFooterLevels
	}
	for _, c := range b[77:88] {
		if c != 0 {
			return nil, errFooterZero
		}
	}
	end := uint64(size - footerSize)
	ok := placeBlock(&f.index, u64(16), u64(24), u64(32), end) &&
		placeBlock(&f.props, u64(40), u64(48), u64(48), end)
	if u64(0)|u64(8) != 0 {
		ok = ok && placeBlock(&f.filter, u64(0), u64(8), u64(8), end)
	}
	if !ok {
		return nil, errFooterHandle
	}
	return f, nil
}

// placeBlock sets h. It reports whether the block lies before end, and raw is at most
// maxRatio times as long as stored. The comparisons are made in an order in which nothing
// overflows.
func placeBlock(h *handle, offset, stored, raw, end uint64) bool {
	const most = 1<<31 - 1 - blockTail // an int on all platforms
	if end < blockTail || offset > end-blockTail || stored > end-blockTail-offset ||
		stored > most || raw > most || raw > stored*maxRatio {
		return false
	}
	*h = handle{offset: int64(offset), stored: int(stored), raw: int(raw)}
	return true
}
