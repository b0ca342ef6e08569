package wal

import (
	"fmt"
	"io"
	"path/filepath"
	"slices"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/vfs"
)

// ReadRange calls fn with the payload of each record of log num between the file offsets from
// and to, in the order in which they were appended, and with the offset where the record ends.
// The payload is valid during the call. If fn returns an error, ReadRange ends and returns it
// unchanged.
//
// from is 0, or the end of a record; to is the end of a record, or of the seal. Such offsets are
// Writer.Len, Writer.Synced, Result.Length and those that fn is called with. The log may be
// written meanwhile, behind to. In the Result, Length is to, and Records counts those of the range.
//
// A *base.CorruptionError says that the header does not check, or that the range does not consist
// of whole records. fn has then been called with the records before the damage.
func ReadRange(fs vfs.FS, dir string, num base.FileNum, storeID uint64, from, to int64, fn func(payload []byte, end int64) error) (Result, error) {
	f, r, err := openRange(fs, dir, num, storeID)
	if err != nil {
		return Result{}, err
	}
	defer f.Close() // only read: nothing to lose
	err = r.readRange(max(from, headerSize), max(to, headerSize), fn)
	return r.result, err
}

// A RangeReader reads ranges of one log, each as ReadRange does, and opens the file only once. It is for
// one goroutine at a time.
type RangeReader struct {
	file vfs.File
	r    *reader
}

// OpenRanges opens log num of the store. The errors are those of ReadHeader. The file may become another log: Read
// then returns an error that wraps ErrAnother or is a *base.CorruptionError.
func OpenRanges(fs vfs.FS, dir string, num base.FileNum, storeID uint64) (*RangeReader, error) {
	f, r, err := openRange(fs, dir, num, storeID)
	if err != nil {
		return nil, err
	}
	r.shared = true
	return &RangeReader{f, r}, nil
}

// Header returns the header of the log.
func (x *RangeReader) Header() Header { return x.r.header }

// Read is ReadRange. The file may have grown since the last call.
func (x *RangeReader) Read(from, to int64, fn func(payload []byte, end int64) error) (Result, error) {
	r := x.r
	size, err := x.file.Size()
	if err != nil {
		return Result{}, fmt.Errorf("wal: size of %s: %w", r.name, err)
	}
	if r.size, r.scan.size = size, size; r.scan.buf != nil && len(r.scan.buf) < blockSize {
		r.scan.buf = nil // it was made for a shorter file
	}
	r.scan.rewind() // the block that it has may have grown, too
	r.result, r.vetted = Result{}, -1
	err = r.readRange(max(from, headerSize), max(to, headerSize), fn)
	return r.result, err
}

// Close closes the file.
func (x *RangeReader) Close() error { return x.file.Close() }

// openRange opens the file of a log and checks its header.
func openRange(fs vfs.FS, dir string, num base.FileNum, storeID uint64) (vfs.File, *reader, error) {
	f, err := fs.Open(filepath.Join(dir, base.LogName(num)))
	if err != nil {
		return nil, nil, fmt.Errorf("wal: open log: %w", err)
	}
	r, err := newReader(f, num, storeID, 0)
	if err != nil {
		_ = f.Close() // only read: nothing to lose
		return nil, nil, err
	}
	return f, r, nil
}

// CopyRange is ReadRange that also returns the bytes of the file that it has read, from offset from on: at
// least up to the end of the last record that fn was called with, and up to the header's end if from is 0. The
// records that fn gets are checked in these bytes, which are read only once. They are a part of *buf, which
// CopyRange makes longer if it has to, and are valid until the caller uses *buf again.
func CopyRange(fs vfs.FS, dir string, num base.FileNum, storeID uint64, from, to int64, buf *[]byte, fn func(payload []byte, end int64) error) ([]byte, Result, error) {
	f, r, err := openRange(fs, dir, num, storeID)
	if err != nil {
		return nil, Result{}, err
	}
	defer f.Close() // only read: nothing to lose
	from = max(from, 0)
	c := &rangeCopy{buf: (*buf)[:0], off: from, to: min(max(to, headerSize), r.size)}
	if from >= headerSize {
		c.off -= (from - headerSize) & (blockSize - 1)
	}
	if from < headerSize {
		if err := r.copyHeader(c); err != nil {
			return nil, Result{}, err
		}
	}
	r.scan.copy, r.scan.size = c, c.to
	r.scan.rewind() // the check of the header may have loaded a block, which is not in c
	err = r.readRange(max(from, headerSize), max(to, headerSize), fn)
	*buf = c.buf
	return c.buf[min(from-c.off, int64(len(c.buf))):len(c.buf):len(c.buf)], r.result, err
}

// copyHeader puts the header into c, and checks that it is still the one that was read before.
func (r *reader) copyHeader(c *rangeCopy) error {
	if err := c.fill(r.file, headerSize); err != nil {
		return fmt.Errorf("wal: read header of %s: %w", r.name, err)
	}
	h, _, err := decodeHeader(c.buf)
	if err == nil && h != r.header {
		err = fmt.Errorf("it was log %d, and is log %d now", r.header.Num, h.Num)
	}
	if err != nil {
		return r.corrupt(0, "log header", err)
	}
	return nil
}

// copyPiece is how many bytes of a range are read at once. A caller that ends CopyRange has read up to so many
// bytes too many.
const copyPiece = 256 << 10

// A rangeCopy has the bytes of a file from offset off on, as far as they were read.
type rangeCopy struct {
	buf []byte
	off int64
	to  int64 // nothing behind it is read: it may be written at the moment
}

// fill reads on until the bytes up to end are there. Requires: end <= c.to.
func (c *rangeCopy) fill(f io.ReaderAt, end int64) error {
	have := c.off + int64(len(c.buf))
	if have >= end {
		return nil
	}
	n := int(min(max(end-have, copyPiece), c.to-have))
	c.buf = slices.Grow(c.buf, n)
	if err := readFull(f, c.buf[len(c.buf):len(c.buf)+n], have); err != nil {
		return err
	}
	c.buf = c.buf[:len(c.buf)+n]
	return nil
}

// block returns the block that begins at file offset start. Requires: c.off <= start < c.to.
func (c *rangeCopy) block(f io.ReaderAt, start int64) ([]byte, error) {
	end := min(start+blockSize, c.to)
	if err := c.fill(f, end); err != nil {
		return nil, err
	}
	return c.buf[start-c.off : end-c.off : end-c.off], nil
}

// readRange is ReadRange for offsets behind the header.
func (r *reader) readRange(from, to int64, fn func(payload []byte, end int64) error) error {
	res := &r.result
	res.Length = from
	if from == headerSize {
		res.LastSeq = r.header.PrevSeq
	}
	if from >= to {
		return nil
	}
	if err := r.scan.seek(from); err == io.EOF {
		return r.outside(from, to, from)
	} else if err != nil {
		return err
	}
	for res.Length < to {
		first, payload, at, err := r.nextRecord()
		switch {
		case err != nil:
			return err
		case payload == nil || res.Sealed || r.scan.offset() > to:
			return r.outside(from, to, at)
		}
		rec := first.record()
		if rec.synced < 0 || rec.synced > first.off || rec.lastSeq < res.LastSeq || rec.lastSeq > base.MaxSeq {
			return r.corrupt(first.off, "log record", fmt.Errorf("synced %d, last sequence number %d after %d", rec.synced, rec.lastSeq, res.LastSeq))
		}
		pass := func(payload []byte) error { return fn(payload, r.scan.offset()) }
		if err := r.accept(first, payload, pass); err != nil {
			return err
		}
	}
	return nil
}

// outside returns the error for a range that is not made of whole records: at offset at is none
// of them.
func (r *reader) outside(from, to, at int64) error {
	return r.corrupt(at, "log record", fmt.Errorf("not a record that ends between offsets %d and %d", from, to))
}
