package wal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/vfs"
)

// ReadOptions say what is known about a log before it is read, and what to do about damage.
type ReadOptions struct {
	// Known is the length of the log, as the next log's header (PrevLen) or the manifest
	// states it. Up to there the log was durable, and what follows is not part of it. -1: not
	// known.
	Known int64
	// Session is the one that must have written the log; 0: it is not known.
	Session uint64
	// Shared says that the file may become another log during Read, because somebody else owns
	// the directory. No record of the other log is then passed on.
	Shared bool
	// Salvage makes Read go on after damage with the next whole record. It reports the damage
	// in the Result. Damage to the header is included. There may be gaps between the records.
	// Damaged, if it is not nil, is called for each damage with a *base.CorruptionError,
	// before Read passes on the record that follows.
	Salvage bool
	Damaged func(err error)
}

// A Result describes what Read has found.
type Result struct {
	Records uint64   // records that were passed to fn
	LastSeq base.Seq // of the last record and its group; without any record, that of the log before
	Length  int64    // file offset where the last record, or the seal, ends
	Session uint64   // that wrote the log; 0: none is known
	Sealed  bool     // it ends with a seal: no record is missing
	Torn    bool     // behind Length are remains of records that were never durable
	Damage  error    // with Salvage: the first damage, a *base.CorruptionError; nil: none
	last    place    // of the fragment with which the last record, or the seal, ends
}

// A place is where a fragment is, and its header, whose checksum covers its content.
type place struct {
	off  int64 // 0: there is none
	head [fragmentSize]byte
}

// Read calls fn with the payload of each record of log num of the store, in the order in
// which they were appended. The payload is valid during the call. If fn returns an error,
// Read ends and returns it unchanged.
//
// A *base.CorruptionError says that records are missing which were durable, or that the
// header does not check: see ReadHeader. fn has then been called with the records before the
// damage. Errors of the file system are returned, wrapped. Read never takes one for the end
// of the log.
func Read(fs vfs.FS, dir string, num base.FileNum, storeID uint64, o ReadOptions, fn func(payload []byte) error) (Result, error) {
	f, err := fs.Open(filepath.Join(dir, base.LogName(num)))
	if err != nil {
		return Result{}, fmt.Errorf("wal: open log: %w", err)
	}
	defer f.Close()
	r, err := newReader(f, num, storeID, o.Session)
	r.shared = o.Shared
	// A log of another session has nothing to salvage: its records have the numbers of others.
	if err != nil && (errors.Is(err, ErrAnother) || r.note(err, o) != nil) {
		return Result{}, err
	}
	err = r.read(o, fn)
	return r.result, err
}

// A reader reads one log once.
//
// It passes records on until one is missing or does not check. Then broken decides whether
// that is the end of the log or damage. The log may just end there, or a torn write may have
// left its remains, and both are no errors. It is damage if anything shows that the log was
// durable further than that: a later record, the seal, ReadOptions.Known, the length of the
// file, or the way in which the record is wrong.
type reader struct {
	file     io.ReaderAt
	name     string
	size     int64
	codec    codec
	session  uint64 // that must have written the log; 0: it is not known
	scan     scanner
	header   Header
	prealloc int64
	seen     []byte // the header as it was read; nil: it does not check
	shared   bool   // the file may become another log
	vetted   int64  // shared: the header was read again after the block at this offset was

	head   [recordSize]byte // numbers of a record of several fragments
	buf    []byte           // payload of a record of several fragments
	result Result
	synced int64    // the largest offset up to which a record says that the log was durable
	rest   *remains // what is behind the last record; nil: not searched yet
}

// A remains describes the fragments that were found behind the last record.
type remains struct {
	synced int64 // the largest offset up to which one of them says that the log was durable
	last   int64 // offset of the last of them; -1: there is none
}

// newReader reads and checks the header. The reader is not nil even with an error, so that
// Read can salvage records behind a damaged header.
func newReader(f vfs.File, num base.FileNum, storeID, session uint64) (*reader, error) {
	// prealloc is odd until a header that checks says something else: the file's past is not known.
	r := &reader{file: f, name: base.LogName(num), codec: newCodec(storeID, num), session: session, prealloc: 1}
	var err error
	if r.size, err = f.Size(); err != nil {
		return r, fmt.Errorf("wal: size of %s: %w", r.name, err)
	}
	r.scan = newScanner(f, r.name, r.size, &r.codec)
	return r, r.readHeader()
}

// corrupt returns the error for damage to the log.
func (r *reader) corrupt(off int64, part string, cause error) error {
	return base.Corruption(r.name, off, part, cause)
}

// read passes the records on, up to the end of the log.
func (r *reader) read(o ReadOptions, fn func(payload []byte) error) error {
	res := &r.result
	res.Length, res.LastSeq, res.Session = headerSize, r.header.PrevSeq, r.header.Session
	r.scan.rewind()
	for !res.Sealed && (o.Known < 0 || res.Length < o.Known) {
		first, payload, at, err := r.nextRecord()
		if err != nil {
			return err
		}
		if payload == nil {
			resumed, err := r.broken(at, o)
			if err != nil || !resumed {
				return err
			}
			continue
		}
		if err := r.check(first, payload); err != nil {
			if err := r.note(err, o); err != nil {
				return err
			}
			continue
		}
		if err := r.accept(first, payload, fn); err != nil {
			return err
		}
	}
	if res.Length != o.Known && o.Known > headerSize || o.Known >= 0 && o.Known <= headerSize && res.Records > 0 {
		return r.note(r.corrupt(res.Length, "log record",
			fmt.Errorf("log ends at %d, its length is known to be %d", res.Length, o.Known)), o)
	}
	return nil
}

// nextRecord returns the first fragment and the payload of the next record. Both are valid
// until the next call. If there is no record the payload is nil, and at is the offset of the
// bytes that are not part of one.
func (r *reader) nextRecord() (first fragment, payload []byte, at int64, err error) {
	first, ok, at, err := r.nextFragment()
	switch {
	case err != nil || !ok:
		return first, nil, at, err
	case first.kind == kindFull || first.kind == kindSeal:
		return first, first.record().payload, at, nil
	case first.kind != kindFirst:
		return first, nil, at, nil
	}
	_, n := decodeRecordHeader(first.content)
	r.buf = append(r.buf[:0], first.content[n:]...)
	first.content = r.head[:copy(r.head[:], first.content[:n])] // a copy, because the next fragment is in another block
	for {
		f, ok, at, err := r.nextFragment()
		if err != nil || !ok || f.kind != kindMiddle && f.kind != kindLast {
			return first, nil, at, err
		}
		r.buf = append(r.buf, f.content...)
		if f.kind == kindLast {
			return first, r.buf, at, nil
		}
	}
}

// nextFragment is the scanner's next, but the end of the file is not an error. at is the
// offset of the fragment, or of the bytes that are none.
func (r *reader) nextFragment() (f fragment, ok bool, at int64, err error) {
	f, ok, err = r.scan.next()
	if err == io.EOF {
		return f, false, r.size, nil
	}
	if !ok {
		return f, false, r.scan.offset(), err
	}
	return f, true, f.off, nil
}

// check checks the numbers of a whole record. The sequence numbers must not fall, and no
// record can say that the log was durable beyond it. A seal must agree with the records
// before it. After damage it can't, so then it is not compared.
func (r *reader) check(first fragment, payload []byte) error {
	res, rec := &r.result, first.record()
	if rec.synced < 0 || rec.synced > first.off || rec.lastSeq < res.LastSeq || rec.lastSeq > base.MaxSeq {
		return r.corrupt(first.off, "log record", fmt.Errorf("synced %d, last sequence number %d after %d", rec.synced, rec.lastSeq, res.LastSeq))
	}
	if first.kind != kindSeal || res.Damage != nil {
		return nil
	}
	if n := binary.LittleEndian.Uint64(payload); n != res.Records || rec.lastSeq != res.LastSeq || rec.synced != res.Length {
		return r.corrupt(first.off, "log seal", fmt.Errorf("seals %d records up to %d and offset %d, found %d up to %d and offset %d",
			n, rec.lastSeq, rec.synced, res.Records, res.LastSeq, res.Length))
	}
	return nil
}

// accept passes on a record that was checked, and counts it.
func (r *reader) accept(first fragment, payload []byte, fn func(payload []byte) error) error {
	res := &r.result
	if r.shared && r.vetted != r.scan.off {
		if err := r.stillThere(); err != nil {
			return err
		}
		r.vetted = r.scan.off
	}
	if first.kind == kindSeal {
		res.Sealed = true
	} else {
		if err := fn(payload); err != nil {
			return err
		}
		res.Records++
	}
	rec := first.record()
	r.synced = max(r.synced, rec.synced)
	res.LastSeq = rec.lastSeq
	res.Length = r.scan.offset()
	res.last.off = r.scan.last
	copy(res.last.head[:], r.scan.block[r.scan.last-r.scan.off:])
	return nil
}

// broken decides what the bytes at offset at are, which are not part of a record. They are
// either the end of the log, which is no error, or damage. resumed reports that the damage is
// to be passed over, and that the scanner is at the next record.
func (r *reader) broken(at int64, o ReadOptions) (resumed bool, err error) {
	res := &r.result
	if r.rest == nil {
		if r.rest, err = r.findRemains(); err != nil {
			return false, err
		}
	}
	var cause error
	switch {
	case o.Salvage && res.Damage != nil && o.Damaged == nil:
		return r.resume(at) // there was damage before, and nobody asks for more of it
	case r.rest.synced > res.Length:
		cause = fmt.Errorf("not a record, in a log that was synced up to %d", r.rest.synced)
	case o.Known > res.Length:
		cause = fmt.Errorf("not a record, in a log that is known to reach to %d", o.Known)
	case r.size < r.prealloc:
		at, cause = r.size, fmt.Errorf("file was cut: it had at least %d bytes", r.prealloc)
	default:
		tagged, err := r.scan.tagged(at)
		if err == nil {
			cause, err = r.rot()
		}
		if cause == nil || err != nil {
			res.Torn = tagged || r.rest.last >= res.Length
			return false, err
		}
	}
	if err := r.note(r.corrupt(at, "log record", cause), o); err != nil {
		return false, err
	}
	return r.resume(at)
}

// findRemains searches the rest of the file, behind the last record, for fragments of this
// log.
func (r *reader) findRemains() (*remains, error) {
	found := &remains{last: -1}
	off := r.result.Length
	for {
		f, ok, err := r.scan.search(off)
		if err != nil || !ok {
			return found, err
		}
		found.last = f.off
		if f.starts() {
			found.synced = max(found.synced, f.record().synced)
		}
		off = f.end()
	}
}

// note returns err, unless it is damage and the caller salvages. Then it reports the damage
// and returns nil.
func (r *reader) note(err error, o ReadOptions) error {
	var damage *base.CorruptionError
	if !o.Salvage || !errors.As(err, &damage) {
		return err
	}
	if r.result.Damage == nil {
		r.result.Damage = err
	}
	if o.Damaged != nil {
		o.Damaged(err)
	}
	return nil
}

// resume moves the scanner to the next record behind off, and reports whether there is one.
func (r *reader) resume(off int64) (found bool, err error) {
	for {
		f, found, err := r.scan.search(off)
		if err != nil || !found {
			return false, err
		}
		if f.starts() {
			return true, r.scan.seek(f.off)
		}
		off = f.end()
	}
}
