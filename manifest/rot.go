package manifest

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"

	"github.com/shaledb/shale/internal/syndrome"
)

// rot returns what is wrong with the record at r.offset if it was written whole and then one
// bit of it was flipped. It returns nil if a torn append may have left these bytes: zeros from
// some byte on, or whole sectors of zeros or garbage. docs/FORMAT.md has the rule.
func (r *recordReader) rot() (cause, err error) {
	if r.size-r.offset < recordHeaderSize {
		return nil, nil
	}
	good := make([]byte, recordHeaderSize)
	if err := r.readAt(good, r.offset); err != nil {
		return nil, err
	}
	flip, mask, headerBad := 0, byte(0), false
	if sum := r.chain.headerSum(good) ^ binary.LittleEndian.Uint32(good[8:]); sum != 0 {
		if flip, mask, headerBad = syndrome.OneBit(8, sum); !headerBad {
			return nil, nil
		}
		good[flip] ^= mask
	}
	// The file must have the whole record. A torn append may leave a shorter one.
	length := int64(binary.LittleEndian.Uint32(good))
	if length == 0 || length > min(maxRecord, r.size-r.offset-recordHeaderSize) {
		return nil, nil
	}
	b := make([]byte, recordHeaderSize+length)
	if err := r.readAt(b, r.offset); err != nil {
		return nil, err
	}
	sum := r.chain.payloadSum(good, b[recordHeaderSize:]) ^ binary.LittleEndian.Uint32(good[4:])
	if (sum != 0) == headerBad {
		return nil, nil // both are wrong, or none
	}
	if !headerBad {
		var ok bool
		if flip, mask, ok = syndrome.OneBit(int(length), sum); !ok || flip >= int(length) {
			return nil, nil // the checksum is part of the header, which is right
		}
		// A large edit that is torn explains a bit by chance now and then, and is no edit then.
		mended := bytes.Clone(b[recordHeaderSize:])
		mended[flip] ^= mask
		if _, err := decodeEdit(mended); err != nil {
			return nil, nil
		}
		flip += recordHeaderSize
	}
	if syndrome.MayBeOld(r.offset, b, flip) {
		return nil, nil
	}
	return fmt.Errorf("checksum mismatch: it matches if byte %d is not %#02x but %#02x, and a torn append does not leave that",
		r.offset+int64(flip), b[flip], b[flip]^mask), nil
}

// readAt fills b with the bytes at off.
func (r *recordReader) readAt(b []byte, off int64) error {
	if n, err := r.file.ReadAt(b, off); n < len(b) {
		if err == nil || err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return fmt.Errorf("manifest: read %s: %w", r.name, err)
	}
	return nil
}
