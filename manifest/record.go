package manifest

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/vfs"
)

// These are part of the file format and never change.
const (
	magic         = "shaleMAN"
	formatVersion = 1

	headerSize       = 36 // of the file
	recordHeaderSize = 12
	maxRecord        = 1 << 30 // longest payload
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// magic 8 · version u32 · zero u32 · store id u64 · file number u64 · crc u32
//
// The layout is the same in all versions, so the checksum is verified before
// the version is believed.
func appendHeader(dst []byte, storeID uint64, num base.FileNum) []byte {
	start := len(dst)
	dst = append(dst, magic...)
	dst = binary.LittleEndian.AppendUint32(dst, formatVersion)
	dst = binary.LittleEndian.AppendUint32(dst, 0)
	dst = binary.LittleEndian.AppendUint64(dst, storeID)
	dst = binary.LittleEndian.AppendUint64(dst, uint64(num))
	return binary.LittleEndian.AppendUint32(dst, crc32.Checksum(dst[start:], castagnoli))
}

// decodeHeader returns the store id in the header b, which must be that of
// manifest num.
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
	if v := binary.LittleEndian.Uint32(b[8:]); v > formatVersion {
		return 0, fmt.Errorf("version %d: %w", v, base.ErrFormatTooNew)
	} else if v == 0 {
		return 0, errors.New("version 0")
	}
	if n := base.FileNum(binary.LittleEndian.Uint64(b[24:])); n != num {
		return 0, fmt.Errorf("it is the header of manifest %s", n)
	}
	return binary.LittleEndian.Uint64(b[16:]), nil
}

// A chain is what the checksums of the next record start from.
type chain struct {
	file uint32 // checksum of the file header
	last uint32 // payload checksum of the record before, or file
}

// newChain returns the start of the chain of a file with this header.
func newChain(header []byte) chain {
	sum := binary.LittleEndian.Uint32(header[headerSize-4:])
	return chain{file: sum, last: sum}
}

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

// headerSum returns the checksum of a record header, of which b has the first
// 8 bytes. It depends on nothing but the file, so that a header is known for
// one wherever it is found.
func (c *chain) headerSum(b []byte) uint32 { return crc32.Update(c.file, castagnoli, b[:8]) }

// validHeader says whether b begins with a header of this file.
func (c *chain) validHeader(b []byte) bool {
	length := binary.LittleEndian.Uint32(b)
	return length > 0 && length <= maxRecord && c.headerSum(b) == binary.LittleEndian.Uint32(b[8:])
}

// payloadSum returns the checksum of a payload that follows the record before.
func (c *chain) payloadSum(header, payload []byte) uint32 {
	return crc32.Update(crc32.Update(c.last, castagnoli, header[:4]), castagnoli, payload)
}

// validPayload says whether payload is that of header and follows the record
// before, and moves the chain on if so.
func (c *chain) validPayload(header, payload []byte) bool {
	sum := c.payloadSum(header, payload)
	if sum != binary.LittleEndian.Uint32(header[4:]) {
		return false
	}
	c.last = sum
	return true
}

// A recordReader reads the records of a manifest in order. Its memory is
// bounded by the longest record, whose length is checked against the file's.
type recordReader struct {
	name    string
	file    vfs.File
	size    int64
	durable int64 // up to here no record may be torn
	storeID uint64
	chain   chain

	in      *bufio.Reader
	offset  int64 // of the next record
	torn    bool
	payload []byte
}

// newRecordReader reads the file header.
func newRecordReader(f vfs.File, num base.FileNum, durable int64) (*recordReader, error) {
	r := &recordReader{name: base.ManifestName(num), file: f, durable: durable}
	var err error
	if r.size, err = f.Size(); err != nil {
		return nil, fmt.Errorf("manifest: size of %s: %w", r.name, err)
	}
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

// read fills b. The file's size is known, so that an end is as bad as any
// other failure to read.
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

// next returns the payload of the next record, valid until the next call, and
// its offset. io.EOF is the end, whether the tail was torn or not.
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

// bad decides what a record at r.offset that does not check is: the torn tail that an interrupted append leaves (io.EOF),
// or damage.
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

// laterRecord looks for a record header at any offset above r.offset. A chance
// match has probability 2^-32 a byte of the torn record.
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
