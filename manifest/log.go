package manifest

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/vfs"
)

// A Log is the manifest in force, open for appending. One goroutine at a time uses it.
//
//  1. Create writes a new manifest, which begins with a snapshot of the state, makes it
//     durable, and then names it in CURRENT.
//  2. Append adds an edit. A synced edit is durable when Append returns.
//  3. When the manifest has become long, or after an error, the owner calls Create with
//     another number, and the new manifest takes the place of this one.
//  4. Finish notes in CURRENT, when the store is closed, how long the manifest is.
//
// A crash leaves the old CURRENT or the new one, each with a complete manifest. The manifest
// may end with a part of the last edit, which Load leaves out.
//
// The first error is final, because it is then unknown what has reached the disk. Every later
// call returns it.
type Log struct {
	// Constant.
	fs   vfs.FS
	dir  string
	num  base.FileNum
	file vfs.File

	// Owned by the goroutine that uses the Log.
	chain   chain
	size    int64
	counted State  // the state after all records, without the tables
	dirty   bool   // something was appended since the last sync
	buf     []byte // payload and record of the last append
	err     error  // the first error
}

// bufferSize is the number of bytes of a snapshot that are collected for one write call.
const bufferSize = 64 << 10

var errFinished = errors.New("manifest: log is finished")

// Create writes manifest num, with a snapshot of s, and makes it the one in force.
//
// If it fails, CURRENT may name the old manifest or the new one. Both say the same as long as
// nothing is appended to the old one. So the owner must not do that, but call Create again
// with another number.
func Create(fs vfs.FS, dir string, num base.FileNum, s *State) (*Log, error) {
	snap := *s
	// A copy of s, so that s does not change. The manifest's own number is used up.
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
		// If it came to the rename, CURRENT may name this file, which then has to stay.
		if !tried {
			// CURRENT can't name the file yet. If it stays, Open removes it.
			_ = fs.Remove(name)
		}
		return nil, fmt.Errorf("manifest: create %s: %w", base.ManifestName(num), err)
	}
	return l, nil
}

// begin writes the header and the snapshot, makes them durable, and changes CURRENT. tried is
// that of writeCurrent.
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
		// The snapshot is applied like every later edit, so counted is what a reader will
		// see.
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
		// CURRENT's next line is written meanwhile: a file system makes both durable in one go.
		line := prepareCurrent(l.fs, l.dir, current{manifest: l.num, durable: l.size})
		err = errors.Join(base.Survive(l.file.Sync), <-line)
	}
	if err == nil {
		// The manifest's name must be durable before CURRENT contains it. A crash may keep
		// the later rename of CURRENT and drop the earlier creation of the manifest.
		err = l.fs.SyncDir(l.dir)
	}
	if err != nil {
		_ = l.fs.Remove(tempPath(l.dir, l.num)) // as in writeCurrent
		return false, err
	}
	return installCurrent(l.fs, l.dir, l.num)
}

// Append writes e. With sync it returns when e is durable. Without sync, e survives a crash
// of the process, and becomes durable with the next Append at the latest. That one syncs e
// before it writes its own edit, so that a crash can tear only the last append.
//
// Requires: e has been applied to the version that the manifest describes, and its sidecars
// are possible, which nothing checks here. If anything else in e would make the manifest
// unreadable, Append refuses it. Only that error is not final.
func (l *Log) Append(e *Edit, sync bool) error {
	if l.err != nil {
		return l.err
	}
	// Nothing was written, so this error is not final.
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

// validate returns an error if Load would refuse the levels, tables, log or counters of e. It
// does not check e.Sidecars. If it returns nil, it has applied e to the counters.
func (l *Log) validate(e *Edit) error {
	if err := e.check(); err != nil {
		return err
	}
	return l.counted.applyCounters(e)
}

// write appends the record of e to the file. Errors go to l.err. An edit that is too long
// ends the log too, because the counters have changed already.
func (l *Log) write(e *Edit) {
	if l.err != nil {
		return
	}
	payload := e.appendTo(l.buf[:0])
	if len(payload) > maxRecord {
		l.fail(fmt.Errorf("edit of %d bytes", len(payload)))
		return
	}
	// The record goes behind its payload in the same buffer.
	l.buf = l.chain.appendRecord(payload, payload)
	record := l.buf[len(payload):]
	if err := writeAll(l.file, record); err != nil {
		l.fail(err)
		return
	}
	l.size += int64(len(record))
	l.dirty = true
}

// sync makes all records durable. Errors go to l.err.
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

// fail sets the error that ends the log.
func (l *Log) fail(err error) {
	l.err = fmt.Errorf("manifest: append to %s: %w", base.ManifestName(l.num), err)
}

// Size returns the length of the manifest in bytes.
func (l *Log) Size() int64 { return l.size }

// Finish makes everything durable that was appended, and notes the manifest's length in
// CURRENT. From then on, damage to the end of the manifest can't be taken for a torn append.
// Afterwards l can only be closed. Requires: l is the manifest in force.
func (l *Log) Finish() error {
	if l.dirty {
		l.sync()
	}
	if l.err != nil {
		return l.err
	}
	// No edit may follow: CURRENT would state less than there is.
	l.err = errFinished
	if _, err := writeCurrent(l.fs, l.dir, current{manifest: l.num, durable: l.size}); err != nil {
		return fmt.Errorf("manifest: finish %s: %w", base.ManifestName(l.num), err)
	}
	return nil
}

// Close closes the file. It does not sync.
func (l *Log) Close() error {
	if l.err == nil {
		l.err = errFinished
	}
	if err := l.file.Close(); err != nil {
		return fmt.Errorf("manifest: close %s: %w", base.ManifestName(l.num), err)
	}
	return nil
}
