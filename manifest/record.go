package manifest

import (
	"bufio"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/vfs"
)

// FormatVersion is the version of the files of a store. It is part of the file format.
const FormatVersion = 1

// A manifest is a header and records. These are part of the file format and never change.
const (
	magic = "shaleMAN"

	headerSize       = 36 // of the file
	recordHeaderSize = 12
	maxRecord        = 1 << 30 // longest payload
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// appendHeader appends the header of the file:
//
// magic 8 · version u32 · zero u32 · store id u64 · file number u64 · crc u32
//
// All versions have this layout. So the checksum is checked before the version is used.
func appendHeader(dst []byte, storeID uint64, num base.FileNum) []byte {
	start := len(dst)
	dst = append(dst, magic...)
	dst = binary.LittleEndian.AppendUint32(dst, FormatVersion)
	dst = binary.LittleEndian.AppendUint32(dst, 0)
	dst = binary.LittleEndian.AppendUint64(dst, storeID)
	dst = binary.LittleEndian.AppendUint64(dst, uint64(num))
	return binary.LittleEndian.AppendUint32(dst, crc32.Checksum(dst[start:], castagnoli))
}

// decodeHeader checks the header b, which must be that of manifest num, and returns the store
// id in it.
func decodeHeader(b []byte, num base.FileNum) (storeID uint64, err error) {
	if len(b) != headerSize {
		return 0, fmt.Errorf("%d bytes, the header has %d", len(b), headerSize)
	}
	if string(b[:8]) != magic {
		return 0, fmt.Errorf("magic %q, want %q", b[:8], magic)
	}
	want := binary.LittleEndian.Uint32(b[32:])
	if got := crc32.Checksum(b[:32], castagnoli); got != want {
		return 0, fmt.Errorf("checksum %08x, want %08x", got, want)
	}
	if v := binary.LittleEndian.Uint32(b[8:]); v > FormatVersion {
		return 0, fmt.Errorf("version %d: %w", v, base.ErrFormatTooNew)
	} else if v == 0 {
		return 0, errors.New("version 0")
	}
	if n := base.FileNum(binary.LittleEndian.Uint64(b[24:])); n != num {
		return 0, fmt.Errorf("it is the header of manifest %s", n)
	}
	return binary.LittleEndian.Uint64(b[16:]), nil
}

// A chain has the checksums that those of the next record begin with. They bind each record
// to the one before it and to its file: a record that is missing, or of another file, is
// noticed.
type chain struct {
	file uint32 // checksum of the file header
	last uint32 // payload checksum of the record before; the same as file for the first one
}

// newChain returns the chain for the first record of a file with this header.
func newChain(header []byte) chain {
	sum := binary.LittleEndian.Uint32(header[headerSize-4:])
	return chain{file: sum, last: sum}
}

// appendRecord appends a record and moves the chain on:
//
// length u32 · payload crc u32 · header crc u32 · payload
func (c *chain) appendRecord(dst, payload []byte) []byte {
	start := len(dst)
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(payload)))
	c.last = crc32.Update(c.last, castagnoli, dst[start:])
	c.last = crc32.Update(c.last, castagnoli, payload)
	dst = binary.LittleEndian.AppendUint32(dst, c.last)
	dst = binary.LittleEndian.AppendUint32(dst, c.headerSum(dst[start:]))
	return append(dst, payload...)
}

// headerSum returns the checksum of a record's header. b begins with the first 8 bytes of the
// header. The checksum depends only on the file and not on other records. So a header can be
// recognised wherever it is found.
func (c *chain) headerSum(b []byte) uint32 { return crc32.Update(c.file, castagnoli, b[:8]) }

// validHeader reports whether b begins with the header of a record of this file.
func (c *chain) validHeader(b []byte) bool {
	length := binary.LittleEndian.Uint32(b)
	return length > 0 && length <= maxRecord && c.headerSum(b) == binary.LittleEndian.Uint32(b[8:])
}

// payloadSum returns the checksum that the payload has if it follows the record before.
func (c *chain) payloadSum(header, payload []byte) uint32 {
	return crc32.Update(crc32.Update(c.last, castagnoli, header[:4]), castagnoli, payload)
}

// validPayload reports whether payload belongs to header and follows the record before. If
// so, it moves the chain on.
func (c *chain) validPayload(header, payload []byte) bool {
	sum := c.payloadSum(header, payload)
	if sum != binary.LittleEndian.Uint32(header[4:]) {
		return false
	}
	c.last = sum
	return true
}

// A recordReader reads the records of a manifest in order. It needs memory for the longest
// record, whose length it checks against the size of the file.
//
// A record that does not check is either the torn tail of an append, which is the end of the
// manifest, or damage. bad decides which. Three facts help it:
//
//   - CURRENT states a length up to which the manifest was durable.
//   - Append syncs a record before it writes the next one. So only the last record can be torn.
//   - A cut append leaves whole sectors of older bytes or zeros, and never changes a few bits.
type recordReader struct {
	name    string
	file    vfs.File
	size    int64
	durable int64 // length that CURRENT states: no record before it may be torn
	storeID uint64
	chain   chain

	in      *bufio.Reader
	offset  int64 // where the next record begins
	torn    bool
	payload []byte
}

// newRecordReader checks the length of the file and reads its header.
func newRecordReader(f vfs.File, num base.FileNum, durable int64) (*recordReader, error) {
	r := &recordReader{name: base.ManifestName(num), file: f, durable: durable}
	var err error
	if r.size, err = f.Size(); err != nil {
		return nil, fmt.Errorf("manifest: size of %s: %w", r.name, err)
	}
	// CURRENT is written after the manifest is durable, so a crash can't leave a shorter one.
	if r.size < durable {
		return nil, base.Corruption(r.name, r.size, "manifest", fmt.Errorf("%d bytes are left of %d", r.size, durable))
	}
	r.in = bufio.NewReaderSize(io.NewSectionReader(f, 0, r.size), 16<<10)
	header := make([]byte, min(headerSize, r.size))
	if err := r.read(header); err != nil {
		return nil, err
	}
	r.storeID, err = decodeHeader(header, num)
	if errors.Is(err, base.ErrFormatTooNew) {
		return nil, fmt.Errorf("manifest: %s: %w", r.name, err)
	}
	if err != nil {
		return nil, base.Corruption(r.name, 0, "manifest header", err)
	}
	r.chain = newChain(header)
	r.offset = headerSize
	return r, nil
}

// skipTo moves to the record that follows those which have led to s. The error is errAnother if
// this is another manifest than that of s, or a shorter one.
func (r *recordReader) skipTo(s *State) error {
	if r.storeID != s.StoreID || r.size < s.Length {
		return errAnother
	}
	if same, err := s.isIn(r.file); !same || err != nil {
		return cmp.Or(err, errAnother)
	}
	r.in.Reset(io.NewSectionReader(r.file, s.Length, r.size-s.Length))
	r.offset, r.chain = s.Length, s.chain
	return nil
}

// read fills b with the next bytes. The size of the file is known, so to meet its end is an
// error.
func (r *recordReader) read(b []byte) error {
	_, err := io.ReadFull(r.in, b)
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return fmt.Errorf("manifest: read %s: %w", r.name, err)
	}
	return nil
}

// next returns the payload of the next record, which is valid until the next call, and its
// offset. At the end it returns io.EOF. A torn tail is an end too: then torn is set.
func (r *recordReader) next() (payload []byte, offset int64, err error) {
	offset = r.offset
	left := r.size - offset
	if left == 0 {
		return nil, offset, io.EOF
	}
	if left < recordHeaderSize {
		return nil, offset, r.bad(fmt.Errorf("%d bytes, a record has %d at least", left, recordHeaderSize+1))
	}
	var header [recordHeaderSize]byte
	if err := r.read(header[:]); err != nil {
		return nil, offset, err
	}
	length := int64(binary.LittleEndian.Uint32(header[:]))
	switch {
	case !r.chain.validHeader(header[:]):
		return nil, offset, r.bad(errors.New("header checksum mismatch"))
	case length > left-recordHeaderSize:
		return nil, offset, r.bad(fmt.Errorf("record of %d bytes, %d are left", length, left-recordHeaderSize))
	}
	// The length was checked against the file, so this allocates no more than the file's
	// size.
	if int64(cap(r.payload)) < length {
		r.payload = make([]byte, length)
	}
	payload = r.payload[:length]
	if err := r.read(payload); err != nil {
		return nil, offset, err
	}
	if !r.chain.validPayload(header[:], payload) {
		return nil, offset, r.bad(errors.New("payload checksum mismatch"))
	}
	r.offset += recordHeaderSize + length
	return payload, offset, nil
}

// bad decides what a record at r.offset is that does not check. If an append was cut short,
// it returns io.EOF. The record is damaged if CURRENT says that it was durable, if another
// record follows, or if its bytes are not those that a cut leaves (rot).
func (r *recordReader) bad(cause error) error {
	if r.offset < r.durable {
		return base.Corruption(r.name, r.offset, "manifest record", cause)
	}
	later, err := r.laterRecord()
	switch {
	case err != nil:
		return err
	case later:
		return base.Corruption(r.name, r.offset, "manifest record", cause)
	}
	if rot, err := r.rot(); err != nil {
		return err
	} else if rot != nil {
		return base.Corruption(r.name, r.offset, "manifest record", rot)
	}
	r.torn = true
	return io.EOF
}

// laterRecord looks for the header of a record at any offset above r.offset. For each byte of
// the torn record, the probability that it finds one by chance is 2^-32.
func (r *recordReader) laterRecord() (bool, error) {
	from := r.offset + 1
	in := bufio.NewReaderSize(io.NewSectionReader(r.file, from, r.size-from), 16<<10)
	for offset := from; offset <= r.size-recordHeaderSize; offset++ {
		b, err := in.Peek(recordHeaderSize)
		if err != nil {
			if err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
			return false, fmt.Errorf("manifest: read %s: %w", r.name, err)
		}
		if r.chain.validHeader(b) {
			return true, nil
		}
		if _, err := in.Discard(1); err != nil {
			return false, fmt.Errorf("manifest: read %s: %w", r.name, err)
		}
	}
	return false, nil
}
