package wal

import (
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/vfs"
)

var (
	// errClosed is returned by Append, Sync and Seal when the log is sealed or closed.
	errClosed = errors.New("log is closed")

	// errNoRoom is wrapped, together with the error of the file system, by the error of an
	// Append or Seal for which the disk has no room. Nothing was written, the log is as it
	// was, and the caller may try again.
	errNoRoom = errors.New("no room for the log to grow")
)

const (
	// pageSize is the unit in bytes in which blocks are reserved.
	pageSize = 4096
	// lateGrowth is the number of bytes by which a file is extended ahead of its records once
	// it is longer than was expected, but at most doubled. Before that it is doubled. So a log
	// with few records is small, and a mapping is seldom made again.
	lateGrowth = 256 << 10
	// maxBuffer is the number of encoded bytes after which the buffer is written. A smaller
	// group takes one write call.
	maxBuffer = 1 << 20
	// directSize is the size in bytes from which a payload is written directly, without a
	// copy in the buffer. This takes two writes for each block.
	directSize = maxBuffer / 2
)

// A Writer appends records to a log.
//
// Append encodes records in a buffer and writes it to the end of the file, with a system call
// or through a mapping. Both change the same pages of the system's page cache. SyncTo makes
// them durable: see sync.go. Blocks of the file are reserved before records are written to
// them, so a full disk is noticed while the log can still be used.
//
// Invariants:
//  1. All bytes of the file from headerSize to length are whole records and padding that the
//     operating system has. Those up to synced are durable.
//  2. headerSize <= synced <= length, and neither ever falls.
//  3. Once failed is set it does not change, and nothing is written any more.
type Writer struct {
	// Constant after Create.
	header Header
	file   vfs.File
	noMap  bool
	held   func() error // Options.Held
	told   func()       // Options.Synced
	// promised is the length that the header states, below which the file must not fall.
	// expected is the length up to which the file is extended in large steps.
	promised, expected int64

	// Owned by the appender.
	codec    codec
	buf      []byte
	one      [1][]byte
	off      int64       // like length
	reserved int64       // the file has reserved blocks up to here; 0: it can't reserve any
	mapping  vfs.Mapping // of the file up to reserved; nil: writes are system calls
	refused  int64       // bytes of the last records for which there was no room
	records  uint64
	lastSeq  base.Seq
	sealed   bool

	// Atomic. The appender writes length and written. The goroutine that syncs writes the
	// others, and the first to fail sets failed.
	length  atomic.Int64
	written atomic.Uint64 // bytes that were appended
	synced  atomic.Int64
	syncs   atomic.Uint64
	failed  atomic.Pointer[failure]

	syncFailed atomic.Bool

	// writtenBack is the offset up to which WriteBack has asked the system to write the log:
	// a multiple of writeBackUnit. The caller of WriteBack writes it.
	writtenBack atomic.Int64

	// mu guards syncing. It also guards file against Close: see lead.
	mu      sync.Mutex
	cond    sync.Cond
	syncing bool
}

// A failure is the first error of a Writer.
type failure struct{ err error }

// Append writes one record. When it returns, the operating system has the record. SyncTo(end)
// makes it durable. lastSeq is the last sequence number that was given out, and must not fall
// from one call to the next.
//
// An error of a write is final. It is unknown whether the record is in the log, and every
// later Append and Sync returns the same error. If the disk is full, and blocks can be
// reserved, Append fails before it writes anything: errNoRoom is not final.
//
// One goroutine at a time may call Append, AppendBatch, Reserve, Shrink, Seal, Trim and
// Close.
func (w *Writer) Append(payload []byte, lastSeq base.Seq) (end int64, err error) {
	w.one[0] = payload
	end, err = w.AppendBatch(w.one[:], lastSeq, false)
	w.one[0] = nil
	return end, err
}

// AppendBatch is Append for a group of records. It takes one write for all of them, or one
// for each MiB. After a crash only the first records of the group may be in the log.
//
// syncNext says that a sync follows. Then the records are written with a system call: the
// sync has to write only the small pages that they are in. A write through the mapping makes
// all of a large page of the page cache dirty.
func (w *Writer) AppendBatch(payloads [][]byte, lastSeq base.Seq, syncNext bool) (end int64, err error) {
	if f := w.failed.Load(); f != nil {
		return 0, f.err
	}
	if w.sealed {
		return 0, errClosed
	}
	if lastSeq < w.lastSeq || lastSeq > base.MaxSeq {
		return 0, fmt.Errorf("wal: append to %s: last sequence number %d after %d", base.LogName(w.header.Num), lastSeq, w.lastSeq)
	}
	// Before anything changes: after errNoRoom the log must be as it was.
	if err := w.makeRoom(payloads...); err != nil {
		return 0, err
	}
	w.lastSeq = lastSeq
	synced := w.synced.Load()
	for _, p := range payloads {
		r := record{synced: synced, lastSeq: lastSeq, payload: p}
		if len(p) >= directSize {
			if err := w.writeDirect(r, syncNext); err != nil {
				return 0, err
			}
			continue
		}
		w.buf = w.codec.appendRecord(w.buf, w.off, r)
		if len(w.buf) >= maxBuffer {
			if err := w.flush(syncNext); err != nil {
				return 0, err
			}
		}
	}
	if err := w.flush(syncNext); err != nil {
		return 0, err
	}
	w.records += uint64(len(payloads))
	return w.off, nil
}

// flush writes the buffer to the end of the log and empties it. byCall says that it uses a
// system call and not the mapping.
func (w *Writer) flush(byCall bool) error {
	n := int64(len(w.buf))
	if n == 0 {
		return nil
	}
	if err := w.write(w.buf, w.off, byCall); err != nil {
		return err
	}
	w.buf = w.buf[:0]
	w.advance(n)
	return nil
}

// write writes p to the file at off.
func (w *Writer) write(p []byte, off int64, byCall bool) error {
	var err error
	if w.mapping != nil && !byCall {
		err = writeAt(w.mapping, p, off)
	} else {
		err = writeAt(w.file, p, off)
	}
	if err != nil {
		return w.fail("append to", err)
	}
	return nil
}

// advance notes that the log is n bytes longer. Readers of length see whole records only,
// because it is stored after they are written.
func (w *Writer) advance(n int64) {
	w.off += n
	w.length.Store(w.off)
	w.written.Store(w.written.Load() + uint64(n))
}

// writeDirect writes a large record from where its payload is, one fragment after the other,
// after what is in the buffer. So a batch of hundreds of megabytes needs no memory here, and
// its bytes are copied once. length does not grow until all of the record is written.
func (w *Writer) writeDirect(r record, byCall bool) error {
	w.buf = appendPadding(w.buf, w.off)
	if err := w.flush(byCall); err != nil {
		return err
	}
	end := w.off
	for head, content := range w.codec.fragments(w.off, r) {
		if err := w.write(head, end, byCall); err != nil {
			return err
		}
		if err := w.write(content, end+int64(len(head)), byCall); err != nil {
			return err
		}
		end += int64(len(head) + len(content))
	}
	w.advance(end - w.off)
	return nil
}

// sealRoom is the largest number of bytes that a seal takes, with the padding before it.
const sealRoom = 2 * minRoom

// makeRoom reserves blocks for what is in the buffer and for records with these payloads.
func (w *Writer) makeRoom(payloads ...[]byte) error {
	need := int64(len(w.buf))
	for _, p := range payloads {
		need += int64(len(p)) + fragmentSize + recordSize
	}
	return w.reserveFor(need)
}

// reserveFor reserves blocks for records that take need bytes, for a seal behind them, and
// for some later records. The new size of the file becomes durable with the next sync, like
// the records in it.
func (w *Writer) reserveFor(need int64) error {
	ends := (need/blockSize + 2) * (minRoom + fragmentSize) // padding and fragment headers at the ends of blocks
	least := w.off + need + ends + sealRoom
	if w.reserved == 0 || least <= w.reserved { // reserved 0: blocks can't be reserved
		return nil
	}
	want := w.reserved + max(w.reserved, firstReserve)
	if want > w.expected {
		want = max(w.expected, least+min(lateGrowth, least))
	}
	reserved, err := reserve(w.file, least, want)
	if base.IsNoSpace(err) {
		w.refused = need
		return fmt.Errorf("wal: append to %s: %w: %w", base.LogName(w.header.Num), errNoRoom, err)
	}
	if err != nil {
		return w.fail("append to", err)
	}
	w.reserved = reserved
	w.remap() // to no mapping if the file system has stopped reserving
	return nil
}

// Reserve tries to make room for records like those that found none before, but at most for a
// page. It returns nil if there is room now, and otherwise an error that wraps errNoRoom, or
// the error that has ended the log.
func (w *Writer) Reserve() error {
	if f := w.failed.Load(); f != nil {
		return f.err
	}
	return w.reserveFor(min(w.refused, pageSize))
}

// Shrink gives back the blocks that are reserved ahead of the records, for others that need
// the room. It reports whether there were any. The log reserves blocks again when it needs
// them. A sealed log needs none, and with the seal the header promises no length any more.
func (w *Writer) Shrink() bool {
	keep := max(w.off+sealRoom+pageSize-1, w.promised) &^ (pageSize - 1)
	if w.sealed {
		keep = (w.off + pageSize - 1) &^ (pageSize - 1)
	}
	if w.failed.Load() != nil || w.reserved <= keep {
		return false
	}
	w.unmap()
	_ = w.file.Truncate(keep) // a failure only keeps the room: no records are cut off
	w.reserved = keep
	w.remap()
	return true
}

// writeAt writes p at off. A short write is an error.
func writeAt(dst io.WriterAt, p []byte, off int64) error {
	n, err := dst.WriteAt(p, off)
	if err == nil && n < len(p) {
		err = io.ErrShortWrite
	}
	return err
}

// fail makes err final, unless there was an error before, and returns the one that is final.
func (w *Writer) fail(attempt string, err error) error {
	err = fmt.Errorf("wal: %s %s: %w", attempt, base.LogName(w.header.Num), err)
	w.failed.CompareAndSwap(nil, &failure{err: err})
	return w.failed.Load().err
}

// Seal ends the log. It makes all records durable, appends a seal, which says that no record
// is missing, and makes that durable. It returns the length of the log, for the header of the
// next log and for the manifest. The file keeps its reserved blocks, because it is soon
// recycled or removed. Trim gives them back.
func (w *Writer) Seal() (length int64, err error) {
	if w.sealed {
		return 0, errClosed
	}
	if f := w.failed.Load(); f != nil {
		return 0, f.err
	}
	if err := w.makeRoom(); err != nil {
		return 0, err
	}
	// A seal written before this sync would save one of two syncs. But then it could be on
	// the disk without the records that it seals, and would prove nothing.
	if err := w.Sync(); err != nil {
		return 0, err
	}
	w.buf = w.codec.appendSeal(w.buf, w.off, w.records, w.lastSeq)
	if err := w.flush(false); err != nil {
		return 0, err
	}
	if err := w.Sync(); err != nil {
		return 0, err
	}
	w.sealed = true
	return w.off, nil
}

// Trim gives back the blocks behind the seal, for a store that may be closed for a long time.
// Requires: Seal has returned nil. Only with a seal may a file be shorter than its header
// says.
func (w *Writer) Trim() error {
	if !w.sealed || w.file == nil {
		return errClosed
	}
	w.unmap()
	if err := w.file.Truncate(w.off); err != nil {
		return w.fail("trim", err)
	}
	return nil
}

// TrimFile is Trim for a log that is closed. The log is sealed, and ends at length end. It reports whether
// the file has become shorter. Requires: nobody writes to the file or has it mapped.
func TrimFile(fs vfs.FS, name string, end int64) (shorter bool) {
	f, err := fs.OpenReadWrite(name)
	if err != nil {
		return false
	}
	size, err := f.Size()
	shorter = err == nil && size > end && f.Truncate(end) == nil
	return f.Close() == nil && shorter
}

// Close closes the file. It waits for a sync that is under way. It neither syncs nor seals. A
// second Close returns errClosed.
func (w *Writer) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.syncing {
		w.cond.Wait()
	}
	if w.file == nil {
		return errClosed
	}
	w.sealed = true
	w.failed.CompareAndSwap(nil, &failure{err: errClosed})
	w.unmap()
	err := w.file.Close()
	w.file = nil
	if err != nil {
		return fmt.Errorf("wal: close %s: %w", base.LogName(w.header.Num), err)
	}
	return nil
}

// Err returns the error after which nothing is written any more, or nil.
func (w *Writer) Err() error {
	if f := w.failed.Load(); f != nil {
		return f.err
	}
	return nil
}

// SyncFailed reports whether a sync of the log has failed. It may be true although a write
// had failed first, and Err has that error.
func (w *Writer) SyncFailed() bool { return w.syncFailed.Load() }

// Num returns the log's number.
func (w *Writer) Num() base.FileNum { return w.header.Num }

// Len returns the file offset where the last record ends.
func (w *Writer) Len() int64 { return w.length.Load() }

// Synced returns the file offset up to which the log is known to be durable.
func (w *Writer) Synced() int64 { return w.synced.Load() }

// Stats returns the number of syncs and the number of bytes that were appended.
func (w *Writer) Stats() (syncs, bytes uint64) { return w.syncs.Load(), w.written.Load() }
