package wal

import (
	"encoding/binary"
	"fmt"
	"io"
	"path/filepath"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/vfs"
)

// FollowOptions say where Follow begins, and where it ends.
type FollowOptions struct {
	// From is the Result of an earlier Follow or Read of the same log: Follow goes on behind it.
	// The zero value: it begins with the first record.
	From Result
	// Session is that of ReadOptions. If From is given, it must be the session of From, too.
	Session uint64
	// Known is the length of the log, as in ReadOptions. -1: not known, so the log may be growing.
	Known int64
	// Judge finds out what bytes are that are no record, if Known is -1: the end of the log, or
	// damage. For that the rest of the file is read. Without it they are the end for now.
	Judge bool
}

// Follow is Read for a log that another process may be writing, and of which the beginning was
// read before. Without a Known length it ends at bytes that are no whole record, and the next
// Follow goes on there. Torn then says that a record may have been begun there. If there is nothing
// new, Follow reads the header and a few bytes.
//
// The error is ErrAnother if the last record of From is not there any more.
//
// After an error, the Result says how far Follow has come, unless its Length is 0.
func Follow(fs vfs.FS, dir string, num base.FileNum, storeID uint64, o FollowOptions, fn func(payload []byte) error) (Result, error) {
	f, err := fs.Open(filepath.Join(dir, base.LogName(num)))
	if err != nil {
		return Result{}, fmt.Errorf("wal: open log: %w", err)
	}
	defer f.Close()
	r, err := newReader(f, num, storeID, o.Session)
	if err == nil && o.From.Length > 0 && o.From.Session != r.header.Session {
		err = fmt.Errorf("wal: read %s: %w", r.name, ErrAnother)
	}
	if err != nil {
		return Result{}, err
	}
	r.shared = true
	err = r.follow(o, fn)
	return r.result, err
}

// follow passes on the records behind o.From.
func (r *reader) follow(o FollowOptions, fn func(payload []byte) error) error {
	res := &r.result
	res.Length, res.LastSeq, res.Session = headerSize, r.header.PrevSeq, r.header.Session
	if o.From.Length > 0 {
		*res = o.From
		res.Torn = false
		if err := r.stillEnds(res.last); err != nil {
			return err
		}
	}
	if idle, err := r.idle(); err != nil || idle && o.Known < 0 {
		return err
	}
	if err := r.goTo(res.Length); err != nil {
		return err
	}
	for !res.Sealed && (o.Known < 0 || res.Length < o.Known) {
		first, payload, at, err := r.nextRecord()
		switch {
		case err != nil:
			return err
		case payload == nil && (o.Known >= 0 || o.Judge):
			_, err := r.broken(at, ReadOptions{Known: o.Known})
			return err
		case payload == nil:
			idle, err := r.idle()
			res.Torn = !idle
			return err
		}
		if err := r.check(first, payload); err != nil {
			return err
		}
		if err := r.accept(first, payload, fn); err != nil {
			return err
		}
	}
	if o.Known > headerSize && res.Length != o.Known {
		return r.corrupt(res.Length, "log record", fmt.Errorf("log ends at %d, its length is known to be %d", res.Length, o.Known))
	}
	return nil
}

// stillEnds returns ErrAnother if the fragment that was read last is not in the file any more: it is a copy of this log
// from before, or its end was given up.
func (r *reader) stillEnds(last place) error {
	if last.off == 0 {
		return nil
	}
	var head [fragmentSize]byte
	switch err := readFull(r.file, head[:], last.off); {
	case err == io.ErrUnexpectedEOF || err == nil && head != last.head:
		return fmt.Errorf("wal: read %s at offset %d: the record that was read there is gone: %w", r.name, last.off, ErrAnother)
	case err != nil:
		return fmt.Errorf("wal: read %s at offset %d: %w", r.name, last.off, err)
	}
	return nil
}

// goTo moves the scanner to offset off, which may be the end of the file.
func (r *reader) goTo(off int64) error {
	err := r.scan.seek(off)
	if err == io.EOF {
		start := off - (off-headerSize)&(blockSize-1)
		r.scan.block, r.scan.off, r.scan.pos = nil, start, int(off-start)
		err = nil
	}
	return err
}

// idle reports whether the bytes behind the result do not even have the tag of a fragment of
// this log, so that no record was begun there.
func (r *reader) idle() (bool, error) {
	off := r.result.Length
	if room := blockRoom(off); room < minRoom {
		off += int64(room)
	}
	if off+fragmentSize > r.size {
		return true, nil
	}
	var head [fragmentSize]byte
	if err := readFull(r.file, head[:], off); err != nil {
		return false, fmt.Errorf("wal: read %s at offset %d: %w", r.name, off, err)
	}
	tag := binary.LittleEndian.Uint16(head[6:])
	return tag&^kindMask != r.codec.mark || tag&kindMask == 0, nil
}
