package wal

import (
	"fmt"
	"io"
	"path/filepath"

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
	f, err := fs.Open(filepath.Join(dir, base.LogName(num)))
	if err != nil {
		return Result{}, fmt.Errorf("wal: open log: %w", err)
	}
	defer f.Close()
	r, err := newReader(f, num, storeID)
	if err != nil {
		return Result{}, err
	}
	err = r.readRange(max(from, headerSize), max(to, headerSize), fn)
	return r.result, err
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
