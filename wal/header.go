package wal

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"path/filepath"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/vfs"
)

// A Header is what a log says about itself and about the log before it.
type Header struct {
	Num     base.FileNum
	StoreID uint64

	Prev    base.FileNum // the log before this one; 0: none
	PrevLen int64        // Prev was durable up to here, and ended here, when this log was made
	PrevSeq base.Seq     // the last sequence number in Prev
}

// ErrNeverUsed is wrapped, beside the *base.CorruptionError, by the error for
// a log without a valid header in whose file no trace of a record is found. A
// crash during Create leaves such a log, so it counts as empty, unless it is
// known that Create had returned.
var ErrNeverUsed = errors.New("log was never used")

// Part of the file format, never changes: docs/FORMAT.md section 3.
//
//	0       8       12        16     24    32         40     48        56       64        68    4096
//	| magic | version | check | store | num | prealloc | prev | prevlen | prevseq | check | zeros |
const (
	magic      = "shaleWAL"
	version    = 1
	headerSize = 4096 // also where the first block begins
	headerUsed = 68
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// appendHeader encodes h. prealloc is the least length of the file.
func appendHeader(dst []byte, h Header, prealloc int64) []byte {
	start := len(dst)
	le := binary.LittleEndian
	dst = append(dst, magic...)
	dst = le.AppendUint32(dst, version)
	dst = le.AppendUint32(dst, crc32.Checksum(dst[start:], castagnoli))
	for _, v := range []uint64{h.StoreID, uint64(h.Num), uint64(prealloc), uint64(h.Prev), uint64(h.PrevLen), uint64(h.PrevSeq)} {
		dst = le.AppendUint64(dst, v)
	}
	dst = le.AppendUint32(dst, crc32.Checksum(dst[start:], castagnoli))
	return append(dst, make([]byte, headerSize-headerUsed)...)
}

// decodeHeader is the reverse of appendHeader. Its errors name no file;
// ErrFormatTooNew is told from damage by the checksum of the version.
func decodeHeader(src []byte) (h Header, prealloc int64, err error) {
	le := binary.LittleEndian
	switch {
	case len(src) < headerUsed:
		return h, 0, fmt.Errorf("%d bytes, want %d", len(src), headerUsed)
	case !bytes.Equal(src[:8], []byte(magic)):
		return h, 0, fmt.Errorf("magic is %q, want %q", src[:8], magic)
	case le.Uint32(src[12:]) != crc32.Checksum(src[:12], castagnoli):
		return h, 0, errors.New("checksum mismatch in the version")
	case le.Uint32(src[8:]) != version:
		return h, 0, fmt.Errorf("%w: version %d, this program knows %d", base.ErrFormatTooNew, le.Uint32(src[8:]), version)
	case le.Uint32(src[64:]) != crc32.Checksum(src[:64], castagnoli):
		return h, 0, errors.New("checksum mismatch")
	}
	h = Header{
		StoreID: le.Uint64(src[16:]),
		Num:     base.FileNum(le.Uint64(src[24:])),
		Prev:    base.FileNum(le.Uint64(src[40:])),
		PrevLen: int64(le.Uint64(src[48:])),
		PrevSeq: base.Seq(le.Uint64(src[56:])),
	}
	prealloc = int64(le.Uint64(src[32:]))
	if prealloc < 0 || h.PrevLen < 0 || h.PrevSeq > base.MaxSeq {
		return h, 0, errors.New("a number is out of range")
	}
	return h, prealloc, nil
}

// ReadHeader returns the header of log num. An error that wraps ErrNeverUsed
// is also a *base.CorruptionError: the caller decides which of the two it is.
// A log of a newer version gives base.ErrFormatTooNew.
func ReadHeader(fs vfs.FS, dir string, num base.FileNum, storeID uint64) (Header, error) {
	f, err := fs.Open(filepath.Join(dir, base.LogName(num)))
	if err != nil {
		return Header{}, fmt.Errorf("wal: open log: %w", err)
	}
	defer f.Close()
	r, err := newReader(f, num, storeID)
	if err != nil {
		return Header{}, err
	}
	return r.header, nil
}

// Identify returns what the header of log num states, also that of another log
// or store. It is for tools.
func Identify(fs vfs.FS, dir string, num base.FileNum) (Header, error) {
	f, err := fs.Open(filepath.Join(dir, base.LogName(num)))
	if err != nil {
		return Header{}, fmt.Errorf("wal: open log: %w", err)
	}
	defer f.Close()
	buf := make([]byte, headerUsed)
	if err := readFull(f, buf, 0); err != nil {
		return Header{}, fmt.Errorf("wal: identify %s: %w", base.LogName(num), err)
	}
	h, _, err := decodeHeader(buf)
	if err != nil {
		return Header{}, fmt.Errorf("wal: identify %s: %w", base.LogName(num), err)
	}
	return h, nil
}

// readHeader reads and checks the header of r's file.
func (r *reader) readHeader() error {
	buf := make([]byte, min(headerUsed, r.size))
	if err := readFull(r.file, buf, 0); err != nil {
		return fmt.Errorf("wal: read header of %s: %w", r.name, err)
	}
	h, prealloc, err := decodeHeader(buf)
	switch {
	case errors.Is(err, base.ErrFormatTooNew):
		return fmt.Errorf("wal: read header of %s: %w", r.name, err)
	case err != nil:
		return r.badHeader(err)
	case h.StoreID != r.codec.storeID:
		return r.corrupt(16, "log header", fmt.Errorf("store is %#x, want %#x", h.StoreID, r.codec.storeID))
	case h.Num < r.codec.num:
		// Recycling renames first and writes the header then.
		return r.badHeader(fmt.Errorf("number is %d, want %d", h.Num, r.codec.num))
	case h.Num > r.codec.num:
		return r.corrupt(24, "log header", fmt.Errorf("number is %d, want %d", h.Num, r.codec.num))
	}
	r.header, r.prealloc = h, prealloc
	if r.size < max(r.prealloc, headerSize) {
		return r.shortFile()
	}
	return nil
}

// shortFile decides what a file is that is shorter than its header promises. A
// crash can do that only to a log that was being created: the length is durable
// with the header. A sealed log may have been trimmed: read finds out.
func (r *reader) shortFile() error {
	_, found, err := r.scan.search(headerSize)
	if err != nil || found {
		return err
	}
	return r.corrupt(r.size, "log", fmt.Errorf("%w: %d bytes, want at least %d", ErrNeverUsed, r.size, max(r.prealloc, headerSize)))
}

// badHeader decides what a file is whose header does not check. The header of a
// log is durable before its first record is written, so one fragment of this
// log proves that the header was good once.
func (r *reader) badHeader(cause error) error {
	_, found, err := r.scan.search(headerSize)
	switch {
	case err != nil:
		return err
	case !found:
		cause = fmt.Errorf("%w: %w", ErrNeverUsed, cause)
	}
	return r.corrupt(0, "log header", cause)
}

// readFull is ReadAt where the bytes must exist: the size was asked before.
func readFull(f io.ReaderAt, p []byte, off int64) error {
	n, err := f.ReadAt(p, off)
	if n == len(p) {
		return nil
	}
	if err == nil || err == io.EOF {
		err = io.ErrUnexpectedEOF // somebody cuts the file while it is read
	}
	return err
}
