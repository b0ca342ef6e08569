package wal

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"path/filepath"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/vfs"
)

// A Header is what a log says about itself and about the log before it.
type Header struct {
	Num     base.FileNum // of the log
	StoreID uint64       // of the store that it belongs to

	Prev    base.FileNum // number of the log before this one; 0: none
	PrevLen int64        // length of Prev in bytes; all of it was durable when this log was made
	PrevSeq base.Seq     // the last sequence number in Prev

	// Session is the id of the session that wrote the log: see manifest.Session. 0: none, because
	// an earlier program wrote it.
	Session uint64
}

// ErrNeverUsed is wrapped, together with a *base.CorruptionError, by the error for a log that
// has no valid header and no trace of a record. A crash during Create leaves such a file. So
// it counts as an empty log, unless it is known that Create had returned.
var ErrNeverUsed = errors.New("log was never used")

// The header of a log takes a page. Part of the file format, never changes: docs/FORMAT.md
// section 3.
//
//	0       8       12        16     24    32         40     48        56       64        68        76      80    4096
//	| magic | version | check | store | num | prealloc | prev | prevlen | prevseq | check | session | check | zeros |
//
// Earlier programs have written zeros behind offset 68, and do not read what stands there.
const (
	magic       = "shaleWAL"
	version     = 1
	headerSize  = 4096 // also where the first block begins
	headerUsed  = 80
	headerFirst = 68 // what earlier programs write and read
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// appendHeader appends the header h, encoded. prealloc is the length in bytes below which the
// file will not fall. It is odd if the file may have had other bytes than zeros before, because
// it was another log or is a vfs.WriteOnce, and even otherwise.
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
	if h.Session != 0 {
		dst = le.AppendUint64(dst, h.Session)
		dst = le.AppendUint32(dst, crc32.Checksum(dst[start:], castagnoli))
	}
	return append(dst, make([]byte, headerSize-(len(dst)-start))...)
}

// decodeHeader is the inverse of appendHeader. Its errors do not name the file. The version
// has a checksum of its own, so that a newer version is not taken for damage, whatever else
// has changed in it.
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
		Session: le.Uint64(src[headerFirst:]),
	}
	if sum := le.Uint32(src[76:]); (h.Session != 0 || sum != 0) && sum != crc32.Checksum(src[:76], castagnoli) {
		return Header{}, 0, errors.New("checksum mismatch in the session")
	}
	prealloc = int64(le.Uint64(src[32:]))
	if prealloc < 0 || h.PrevLen < 0 || h.PrevSeq > base.MaxSeq {
		return h, 0, errors.New("a number is out of range")
	}
	return h, prealloc, nil
}

// ReadHeader returns the header of log num. For a log of a newer version it returns
// base.ErrFormatTooNew. An error that wraps ErrNeverUsed is also a *base.CorruptionError: the
// caller knows whether the log must have been used, and decides which of the two it is. session
// is the one that must have written the log; 0: it is not known.
func ReadHeader(fs vfs.FS, dir string, num base.FileNum, storeID, session uint64) (Header, error) {
	f, err := fs.Open(filepath.Join(dir, base.LogName(num)))
	if err != nil {
		return Header{}, fmt.Errorf("wal: open log: %w", err)
	}
	defer f.Close()
	r, err := newReader(f, num, storeID, session)
	if err != nil {
		return Header{}, err
	}
	return r.header, nil
}

// Identify returns the header of the file of log num, even if it is that of another log or
// store. A *base.CorruptionError says that the file has none.
func Identify(fs vfs.FS, dir string, num base.FileNum) (Header, error) {
	f, err := fs.Open(filepath.Join(dir, base.LogName(num)))
	if err != nil {
		return Header{}, fmt.Errorf("wal: open log: %w", err)
	}
	defer f.Close()
	buf := make([]byte, headerUsed)
	err = readFull(f, buf, 0)
	switch {
	case err == io.ErrUnexpectedEOF:
		return Header{}, base.Corruption(base.LogName(num), 0, "log header", err)
	case err != nil:
		return Header{}, fmt.Errorf("wal: identify %s: %w", base.LogName(num), err)
	}
	h, _, err := decodeHeader(buf)
	switch {
	case errors.Is(err, base.ErrFormatTooNew):
		return Header{}, fmt.Errorf("wal: identify %s: %w", base.LogName(num), err)
	case err != nil:
		return Header{}, base.Corruption(base.LogName(num), 0, "log header", err)
	}
	return h, nil
}

// Begun is Identify that reports whether the file is log num by now. It is not if it is gone, if the log is still to
// come, or if its header is damaged: the manifest, or the next log, says whether there must be such a log.
func Begun(fsys vfs.FS, dir string, num base.FileNum) (h Header, begun bool, err error) {
	h, err = Identify(fsys, dir, num)
	var none *base.CorruptionError
	if errors.Is(err, fs.ErrNotExist) || errors.As(err, &none) {
		return h, false, nil
	}
	return h, err == nil && h.Num == num, err
}

// readHeader reads and checks the header of the log. The errors of a header that does not
// check may wrap ErrNeverUsed: see badHeader.
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
		// A file is recycled in two steps: it is renamed, and then its header is written. A
		// crash in between leaves the header of the older log.
		return r.badHeader(fmt.Errorf("number is %d, want %d", h.Num, r.codec.num))
	case h.Num > r.codec.num:
		return r.corrupt(24, "log header", fmt.Errorf("number is %d, want %d", h.Num, r.codec.num))
	case h.Session == 0 && r.session != 0:
		// In a new file these bytes were zeros before, and a crash may have kept them.
		return r.badHeader(fmt.Errorf("no session, want %016x", r.session))
	case h.Session != r.session && r.session != 0:
		return r.corrupt(headerFirst, "log header", fmt.Errorf("%w: of session %016x, and the manifest knows of session %016x, "+
			"as if an older copy was put over newer files", ErrAnother, h.Session, r.session))
	}
	r.seen = buf
	r.header, r.prealloc = h, prealloc
	if r.size < max(r.prealloc, headerSize) {
		return r.shortFile()
	}
	return nil
}

// ErrAnother is wrapped by the error for a file that is another log than the one that it must be: one
// of another session, or, if a part of it was read before, of another number.
var ErrAnother = errors.New("it is another log")

// stillThere returns an error unless the file has the header that was read at first. So what was
// read since is of that log: whatever turns a file into another log writes the header first.
func (r *reader) stillThere() error {
	var buf [headerUsed]byte
	if err := readFull(r.file, buf[:], 0); err != nil {
		return fmt.Errorf("wal: read header of %s: %w", r.name, err)
	}
	if !bytes.Equal(buf[:], r.seen) {
		return fmt.Errorf("wal: read %s: %w", r.name, ErrAnother)
	}
	return nil
}

// shortFile decides what a file is that is shorter than its header promises. A crash can
// leave that only of a log that was being created, because the length is durable together
// with the header. Then there is no fragment in it. If there is one, the file may be a sealed
// log that was trimmed, and shortFile returns nil: read finds out whether it is sealed.
func (r *reader) shortFile() error {
	_, found, err := r.scan.search(headerSize)
	if err != nil || found {
		return err
	}
	return r.corrupt(r.size, "log", fmt.Errorf("%w: %d bytes, want at least %d", ErrNeverUsed, r.size, max(r.prealloc, headerSize)))
}

// badHeader decides what a file is whose header does not check. The header of a log is
// durable before its first record is written. So one fragment of this log proves that the
// header was good, and is damaged. Without one, the log was never used.
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

// readFull fills p. The caller has asked for the size of the file, so its end is an error.
func readFull(f io.ReaderAt, p []byte, off int64) error {
	n, err := f.ReadAt(p, off)
	if n == len(p) {
		return nil
	}
	if err == nil || err == io.EOF {
		err = io.ErrUnexpectedEOF // the file became shorter while it was read
	}
	return err
}
