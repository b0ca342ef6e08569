package manifest

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/vfs"
)

// A Log is the manifest in force, open for appending. One goroutine uses it at
// a time.
//
// Its first error is final, since what reached the disk is then unknown: every
// later call returns it, and the owner goes on with a new manifest made by
// Create.
type Log struct {
	// Constant.
	fs   vfs.FS
	dir  string
	num  base.FileNum
	file vfs.File

	chain   chain
	size    int64
	counted State  // what the records say, but for the tables
	dirty   bool   // something was appended and not synced
	buf     []byte // payload and record of the last append
	err     error  // the first error
}

// bufferSize is how much of a snapshot is gathered for one write call.
const bufferSize = 64 << 10

var errFinished = errors.New("manifest: log is finished")

// Create begins manifest num with a snapshot of s, makes it durable, and then
// the one in force. When it fails, CURRENT names either the old manifest or
// the new one: they say the same as long as nothing is appended to the old
// one, so the owner must not do that, but call Create again with another
// number.
func Create(fs vfs.FS, dir string, num base.FileNum, s *State) (*Log, error) {
	snap := *s
	snap.NextFileNum = max(snap.NextFileNum, num+1)
	if snap.Version == nil {
		snap.Version = new(Version)
	}
	if err := snap.Version.Check(); err != nil {
		return nil, fmt.Errorf("manifest: create %s: %w", base.ManifestName(num), err)
	}
	name := filepath.Join(dir, base.ManifestName(num))
	file, err := fs.Create(name)
	if err != nil {
		return nil, fmt.Errorf("manifest: %w", err)
	}
	l := &Log{fs: fs, dir: dir, num: num, file: file}
	tried, err := l.begin(&snap)
	if err != nil {
		err = errors.Join(err, file.Close())
		if !tried {
			// Nothing names the file; if it stays, Open removes it.
			_ = fs.Remove(name)
		}
		return nil, fmt.Errorf("manifest: create %s: %w", base.ManifestName(num), err)
	}
	return l, nil
}

// begin writes header and snapshot and switches CURRENT. tried is as in
// writeCurrent.
func (l *Log) begin(s *State) (tried bool, err error) {
	out := appendHeader(nil, s.StoreID, l.num)
	l.chain = newChain(out)
	flush := func() error {
		err := writeAll(l.file, out)
		l.size += int64(len(out))
		out = out[:0]
		return err
	}
	err = s.snapshot(func(e *Edit) error {
		if err := l.counted.applyCounters(e); err != nil {
			return err
		}
		l.buf = e.appendTo(l.buf[:0])
		if len(l.buf) > 0 {
			out = l.chain.appendRecord(out, l.buf)
		}
		if len(out) < bufferSize {
			return nil
		}
		return flush()
	})
	if err == nil {
		err = flush()
	}
	if err == nil {
		err = l.file.Sync()
	}
	if err == nil {
		// The name must be durable before CURRENT holds it: a crash may
		// keep the later of two renames and creations and drop the earlier.
		err = l.fs.SyncDir(l.dir)
	}
	if err != nil {
		return false, err
	}
	return writeCurrent(l.fs, l.dir, current{manifest: l.num, durable: l.size})
}

// Append writes e, and with sync waits until it is durable. Without, e
// survives the process and becomes durable with the next Append at the
// latest: that syncs it first, so that never more than the last append can be
// torn.
//
// Requires: e has been applied to the version that the manifest describes. An
// edit that would make the manifest unreadable is refused; that error, and
// only that, is not final.
func (l *Log) Append(e *Edit, sync bool) error {
	if l.err != nil {
		return l.err
	}
	if err := l.validate(e); err != nil {
		return fmt.Errorf("manifest: append to %s: %w", base.ManifestName(l.num), err)
	}
	if !e.empty() {
		if l.dirty {
			l.sync()
		}
		l.write(e)
	}
	if sync && l.dirty {
		l.sync()
	}
	return l.err
}

// validate refuses an edit that Load would refuse.
func (l *Log) validate(e *Edit) error {
	if _, _, err := e.byLevel(); err != nil {
		return err
	}
	for _, a := range e.Added {
		if err := a.Table.check(); err != nil {
			return err
		}
	}
	if s := e.SealedLog; s != nil && (s.Length < 0 || s.LastSeq > base.MaxSeq) {
		return fmt.Errorf("log %s is sealed with length %d and sequence number %d", s.Num, s.Length, s.LastSeq)
	}
	if e.LastSeq > base.MaxSeq {
		return fmt.Errorf("sequence number %d is too large", e.LastSeq)
	}
	return l.counted.applyCounters(e)
}

func (l *Log) write(e *Edit) {
	if l.err != nil {
		return
	}
	payload := e.appendTo(l.buf[:0])
	if len(payload) > maxRecord {
		l.fail(fmt.Errorf("edit of %d bytes", len(payload)))
		return
	}
	l.buf = l.chain.appendRecord(payload, payload)
	record := l.buf[len(payload):]
	if err := writeAll(l.file, record); err != nil {
		l.fail(err)
		return
	}
	l.size += int64(len(record))
	l.dirty = true
}

func (l *Log) sync() {
	if l.err != nil {
		return
	}
	if err := l.file.Sync(); err != nil {
		l.fail(err)
		return
	}
	l.dirty = false
}

func (l *Log) fail(err error) {
	l.err = fmt.Errorf("manifest: append to %s: %w", base.ManifestName(l.num), err)
}

// Size returns the manifest's length in bytes.
func (l *Log) Size() int64 { return l.size }

// Finish makes everything appended durable and notes in CURRENT that this is
// the whole manifest, so that from then on no damage to its end can pass for a
// torn append. It ends the log's use, but for Close. Requires: l is the
// manifest in force.
func (l *Log) Finish() error {
	if l.dirty {
		l.sync()
	}
	if l.err != nil {
		return l.err
	}
	l.err = errFinished
	if _, err := writeCurrent(l.fs, l.dir, current{manifest: l.num, durable: l.size}); err != nil {
		return fmt.Errorf("manifest: finish %s: %w", base.ManifestName(l.num), err)
	}
	return nil
}

// Close closes the file. It syncs nothing.
func (l *Log) Close() error {
	if l.err == nil {
		l.err = errFinished
	}
	if err := l.file.Close(); err != nil {
		return fmt.Errorf("manifest: close %s: %w", base.ManifestName(l.num), err)
	}
	return nil
}
