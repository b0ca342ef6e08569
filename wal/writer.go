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
	// errClosed is returned by Append, Sync and Seal once the log is sealed or
	// closed.
	errClosed = errors.New("log is closed")

	// errNoRoom is wrapped, beside the error of the file system, by the error of
	// an Append or Seal for which the disk has no room. Nothing was written: the
	// log is as it was, and the call may be made again.
	errNoRoom = errors.New("no room for the log to grow")
)

const (
	// pageSize is the unit in which blocks are reserved.
	pageSize = 4096
	// lateGrowth is by how much a file is extended ahead of its records when it
	// is longer than was expected. Up to there it doubles, so that a log with few
	// records is small, and a mapping is seldom made again.
	lateGrowth = 256 << 10
	// maxBuffer is how much is encoded before it is written: a group takes one
	// write call unless it is larger.
	maxBuffer = 1 << 20
	// directSize is the size from which a payload is written from where it lies,
	// without a copy in the buffer. It takes two writes for each block then.
	directSize = maxBuffer / 2
)

// A Writer appends records to a log.
//
// Invariants:
//  1. All bytes of the file from headerSize to length are whole records and
//     padding, handed to the operating system; those up to synced are durable.
//  2. headerSize <= synced <= length, and neither ever falls.
//  3. Once failed is set, it never changes, and nothing is written any more.
type Writer struct {
	// Constant after Create.
	header Header
	file   vfs.File
	noMap  bool
	// promised is the least length of the file, which its header states;
	// expected is the length up to which it is extended ahead of its records.
	promised, expected int64

	// Owned by the appender.
	codec    codec
	buf      []byte
	one      [1][]byte
	off      int64       // = length
	reserved int64       // the file has blocks up to here; 0: it can't have
	mapping  vfs.Mapping // of all that is reserved; nil: written by calls
	refused  int64       // what the last records take for which there was no room
	records  uint64
	lastSeq  base.Seq
	sealed   bool

	// Atomic. length and written belong to the appender, the others to
	// whoever syncs.
	length  atomic.Int64
	written atomic.Uint64 // bytes
	synced  atomic.Int64
	syncs   atomic.Uint64
	failed  atomic.Pointer[failure]

	syncFailed atomic.Bool

	// writtenBack is up to where the system was asked to write the log: a
	// multiple of writeBackUnit.
	writtenBack atomic.Int64

	// mu guards syncing: see sync.go.
	mu      sync.Mutex
	cond    sync.Cond
	syncing bool
}

// A failure is the first error.
type failure struct{ err error }

// Append writes one record. It is in the operating system's hands when Append
// returns; end is what SyncTo needs to make it durable. lastSeq is the last
// sequence number given out and must never fall. An error of a write is final:
// whether the record is in the log is unknown, and every later Append and Sync
// returns the same error. Where blocks can be reserved, a full disk is found out
// before anything is written: errNoRoom is not final.
//
// One goroutine at a time may call Append, AppendBatch, Reserve, Shrink, Seal,
// Trim and Close.
func (w *Writer) Append(payload []byte, lastSeq base.Seq) (end int64, err error) {
	w.one[0] = payload
	end, err = w.AppendBatch(w.one[:], lastSeq, false)
	w.one[0] = nil
	return end, err
}

// AppendBatch is Append for a group of records, with one write for all of them
// (one for each MiB if they are more). After a crash there may be only the
// first of them. syncNext tells that a sync will follow: then the records are
// written by a call, after which the system writes the pages that they are in,
// where a mapped write dirties all of a large page of its cache.
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

// flush writes what is in the buffer, which it empties, to the end of the log,
// by a call or through the mapping: both write the same pages.
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

// advance says that the log is n bytes longer.
func (w *Writer) advance(n int64) {
	w.off += n
	w.length.Store(w.off)
	w.written.Store(w.written.Load() + uint64(n))
}

// writeDirect writes a large record, after what is in the buffer, a fragment at a
// time and from where its payload lies: a batch of hundreds of megabytes needs no
// memory here, and its bytes are copied once. The log ends before the record
// until all of it is written.
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

// sealRoom is what a seal takes at most, with the padding before it.
const sealRoom = 2 * minRoom

// makeRoom reserves blocks for records with these payloads.
func (w *Writer) makeRoom(payloads ...[]byte) error {
	need := int64(len(w.buf))
	for _, p := range payloads {
		need += int64(len(p)) + fragmentSize + recordSize
	}
	return w.reserveFor(need)
}

// reserveFor reserves blocks for records that take need bytes, for a seal behind
// them, and for some records to come. What it adds to the file is durable with the
// next sync, as the records in it are.
func (w *Writer) reserveFor(need int64) error {
	ends := (need/blockSize + 2) * (minRoom + fragmentSize) // what the ends of blocks take
	least := w.off + need + ends + sealRoom
	if w.reserved == 0 || least <= w.reserved { // 0: blocks can't be reserved
		return nil
	}
	want := w.reserved + max(w.reserved, firstReserve)
	if want > w.expected {
		want = max(w.expected, least+lateGrowth)
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
	w.remap() // to none if the file system does not reserve any more
	return nil
}

// Reserve makes sure that there is room for records like those that found none
// before, or for those of a page if they were larger. Else it returns the error
// that wraps errNoRoom.
func (w *Writer) Reserve() error {
	if f := w.failed.Load(); f != nil {
		return f.err
	}
	return w.reserveFor(min(w.refused, pageSize))
}

// Shrink gives back what is reserved ahead of the records, for others who need
// the room, and tells whether there was anything. The log grows again when it must.
func (w *Writer) Shrink() bool {
	keep := max(w.off+sealRoom+pageSize-1, w.promised) &^ (pageSize - 1)
	if w.sealed || w.failed.Load() != nil || w.reserved <= keep {
		return false
	}
	w.unmap()
	_ = w.file.Truncate(keep) // only room: what is cut off are no records
	w.reserved = keep
	w.remap()
	return true
}

// writeAt treats a short write as the error that it is.
func writeAt(dst io.WriterAt, p []byte, off int64) error {
	n, err := dst.WriteAt(p, off)
	if err == nil && n < len(p) {
		err = io.ErrShortWrite
	}
	return err
}

// fail makes err, or the error that was first, final and returns it.
func (w *Writer) fail(attempt string, err error) error {
	err = fmt.Errorf("wal: %s %s: %w", attempt, base.LogName(w.header.Num), err)
	w.failed.CompareAndSwap(nil, &failure{err: err})
	return w.failed.Load().err
}

// Seal makes all records durable, closes the log with a seal, which tells that
// none is missing, and makes that durable. It returns the length of the log,
// which the successor and the manifest are to state. The file keeps what was
// reserved: it will be recycled or deleted soon. Trim gives it back.
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
	// Sealing before this sync would save one of two, but the seal could be on
	// the disk without what it seals, and so would prove nothing.
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

// Trim gives back what is reserved behind the seal, for a store that is closed
// for long. Requires: Seal has returned nil, so that a file shorter than its
// header says is known to be whole.
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

// Close releases the file. It waits for a sync under way, and neither syncs
// nor seals. A second Close returns errClosed.
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

// SyncFailed tells whether a sync of the log has failed, be it that a write had
// failed before.
func (w *Writer) SyncFailed() bool { return w.syncFailed.Load() }

// Num returns the log's number.
func (w *Writer) Num() base.FileNum { return w.header.Num }

// Len returns where the last record ends.
func (w *Writer) Len() int64 { return w.length.Load() }

// Synced returns up to where the log is known to be durable.
func (w *Writer) Synced() int64 { return w.synced.Load() }

// Stats returns how many syncs there were and how many bytes were appended.
func (w *Writer) Stats() (syncs, bytes uint64) { return w.syncs.Load(), w.written.Load() }
