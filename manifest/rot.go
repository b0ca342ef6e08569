package manifest

import (
	"encoding/binary"
	"fmt"
	"io"
	"slices"

	"github.com/shaledb/shale/internal/syndrome"
)

// rot returns what is wrong with the record at r.offset if it was written whole and then
// damaged. It returns nil if a torn append may have left these bytes.
//
// A torn append leaves zeros or garbage in whole sectors, or zeros from some byte to the end
// of a sector. It does not change a few bits. So if a few changed bits explain why the record
// does not check, and they are not among such bytes, the record is damaged. docs/FORMAT.md
// has the rule.
func (r *recordReader) rot() (cause, err error) {
	header := make([]byte, min(recordHeaderSize, r.size-r.offset))
	if err := r.readAt(header, r.offset); err != nil || len(header) < recordHeaderSize {
		return nil, err
	}
	// good is the header as it was written: with its error corrected, if it has a small one.
	good := header
	var flips []syndrome.Flip
	if !r.chain.validHeader(header) {
		if good, flips = r.mend(header); good == nil {
			return nil, nil
		}
	}
	length := int64(binary.LittleEndian.Uint32(good))
	// The file must have the whole record. A torn append may leave a shorter one.
	if length == 0 || length > min(maxRecord, r.size-r.offset-recordHeaderSize) {
		return nil, nil
	}
	p := syndrome.Piece{Off: r.offset, Bytes: make([]byte, recordHeaderSize+length)}
	if err := r.readAt(p.Bytes, r.offset); err != nil {
		return nil, err
	}
	payload := p.Bytes[recordHeaderSize:]
	// A copy, because validPayload would move the chain on.
	chain := r.chain
	switch valid := chain.validPayload(good, payload); {
	case valid == (flips == nil):
		return nil, nil // both are right, or both are wrong
	case flips == nil:
		flips = r.damagedBytes(good, p)
	}
	// At least one of the changed bits must be where a torn append can't have left it.
	if len(flips) == 0 || !slices.ContainsFunc(flips, func(f syndrome.Flip) bool { return !p.MayBeOldZero(f.Pos) && !p.Few(f.Pos) }) {
		return nil, nil
	}
	f := flips[0]
	return fmt.Errorf("checksum mismatch: it matches if byte %d is not %#02x but %#02x, and a torn append does not leave that",
		r.offset+int64(f.Pos), p.Bytes[f.Pos], p.Bytes[f.Pos]^f.Mask), nil
}

// mend looks for a small error in a record's header. It returns the header without the error,
// and the error; nil if there is none, or more than one is possible. The caller has to check
// the payload against the corrected header.
func (r *recordReader) mend(header []byte) (good []byte, flips []syndrome.Flip) {
	found := syndrome.Find(8, r.chain.headerSum(header)^binary.LittleEndian.Uint32(header[8:]), syndrome.Likely)
	if len(found) != 1 {
		return nil, nil
	}
	e := found[0]
	good = slices.Clone(header)
	for _, f := range e.Flips[:e.N] {
		good[f.Pos] ^= f.Mask
	}
	return good, e.Flips[:e.N]
}

// damagedBytes looks for a small error in the payload of p, whose header is right. It returns
// nil if there is none, or more than one is possible, or if the corrected payload is not an
// edit.
func (r *recordReader) damagedBytes(header []byte, p syndrome.Piece) []syndrome.Flip {
	payload := slices.Clone(p.Bytes[recordHeaderSize:])
	n := len(payload)
	most := max(syndrome.Doubtful, syndrome.Bits(n))
	if _, to := p.Sector(0); to == len(p.Bytes) && !p.EndsInZeros() {
		most = syndrome.Likely
	}
	found := syndrome.Find(n, r.chain.payloadSum(header, payload)^binary.LittleEndian.Uint32(header[4:]), most)
	if len(found) != 1 {
		return nil
	}
	flips := found[0].Flips[:found[0].N]
	for i := range flips {
		if flips[i].Pos >= n {
			return nil // in the checksum, which the header's own checksum covers
		}
		payload[flips[i].Pos] ^= flips[i].Mask
		flips[i].Pos += recordHeaderSize
	}
	if _, err := decodeEdit(payload); err != nil {
		return nil
	}
	return flips
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
