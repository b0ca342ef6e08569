package wal

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/vfs"
)

// Options say where a log is and how it is written.
type Options struct {
	FS  vfs.FS // the file system
	Dir string // the directory of the store
	// Prealloc is the length in bytes that the log is expected to get. The file system
	// reserves blocks for it in advance, so that a sync need only write the records: Prepare
	// reserves them all, and Create a few, with more to come as the log grows. If the disk
	// has less room, less is reserved. 0: nothing is reserved, and the file grows with the
	// records.
	Prealloc int64
	// NoMap says that the log is written with system calls even if the file can be mapped.
	NoMap bool
	// Held is asked after each sync, before anybody is told of it. If it returns an error, the
	// sync counts as failed: the directory may not be there any more. nil: nothing is asked.
	Held func() error
	// Synced is called after each sync that has succeeded, when Writer.Synced has grown. nil: nobody is.
	Synced func()
	// Recycle is a log that nothing needs any more. Its file is renamed and overwritten. This
	// makes syncs cheaper still, because its blocks have been written before. 0: none.
	Recycle base.FileNum
}

const (
	// firstReserve is the number of bytes that Create reserves. It is small, so that a store
	// with few writes takes little room.
	firstReserve = 64 << 10
	// leastReserve is the number of bytes without which a log is of no use: its header, and
	// room for a small record and a seal.
	leastReserve = headerSize + pageSize
)

// Create makes the file of log h.Num, new or recycled. When it returns, the header and the
// name of the file are durable. If it fails it removes the file, as far as it can.
func Create(h Header, o Options) (*Writer, error) {
	p, err := open(h.Num, o, firstReserve)
	if err != nil {
		return nil, err
	}
	return p.begin(h, true)
}

// A Prepared is a file that will become a log. It has no header of its own yet, so until
// Begin a reader takes it for a log that was never used.
type Prepared struct {
	num      base.FileNum
	opts     Options
	file     vfs.File
	reserved int64
}

// Prepare does the slow part of Create beforehand: it makes the file, reserves its blocks,
// and makes both durable. Begin does the rest.
func Prepare(num base.FileNum, o Options) (*Prepared, error) {
	p, err := open(num, o, o.Prealloc)
	if err != nil {
		return nil, err
	}
	if err = p.file.Sync(); err == nil {
		err = o.FS.SyncDir(o.Dir)
	}
	if err != nil {
		_ = p.Discard() // the error at hand is the one to report
		return nil, fmt.Errorf("wal: prepare %s: %w", base.LogName(num), err)
	}
	return p, nil
}

// Place makes the file as Prepare does, but small as Create does, and waits for nothing. Requires: the caller syncs the
// directory before Begin, which makes all else durable.
func Place(num base.FileNum, o Options) (*Prepared, error) { return open(num, o, firstReserve) }

// Num returns the number that the log will have.
func (p *Prepared) Num() base.FileNum { return p.num }

// Begin turns the file into a log. When it returns, the header is durable too. If it fails it
// removes the file, as far as it can. Requires: h.Num is Num.
func (p *Prepared) Begin(h Header) (*Writer, error) { return p.begin(h, false) }

// Discard closes the file and removes it.
func (p *Prepared) Discard() error {
	return errors.Join(p.file.Close(), p.opts.FS.Remove(filepath.Join(p.opts.Dir, base.LogName(p.num))))
}

// Close closes the file and leaves it in the directory. Whoever cleans up next removes it.
func (p *Prepared) Close() error { return p.file.Close() }

// open makes the file and reserves its blocks up to first, or up to Prealloc if that is less.
// It reserves no less than a recycled file has already.
func open(num base.FileNum, o Options, first int64) (*Prepared, error) {
	p := &Prepared{num: num, opts: o}
	var err error
	name := filepath.Join(o.Dir, base.LogName(num))
	if p.file, err = openFile(name, o); err != nil {
		_ = o.FS.Remove(name) // it may be there all the same
		return nil, fmt.Errorf("wal: create log: %w", err)
	}
	if err := p.allocate(min(first, o.Prealloc)); err != nil {
		_ = p.Discard() // err is the one to report; a file that stays counts as never used
		return nil, fmt.Errorf("wal: create %s: %w", base.LogName(num), err)
	}
	return p, nil
}

// begin writes the header and makes it durable. With syncDir it makes the name durable too,
// which Prepare does earlier.
func (p *Prepared) begin(h Header, syncDir bool) (*Writer, error) {
	w := &Writer{
		header: h, codec: newCodec(h.StoreID, h.Num), lastSeq: h.PrevSeq, off: headerSize,
		file: p.file, reserved: p.reserved, promised: p.promised(), expected: p.opts.Prealloc, noMap: p.opts.NoMap, held: p.opts.Held, told: p.opts.Synced,
	}
	w.length.Store(headerSize)
	w.cond.L = &w.mu
	if err := p.writeHeader(h, syncDir); err != nil {
		_ = p.Discard() // as in open
		return nil, fmt.Errorf("wal: create %s: %w", base.LogName(h.Num), err)
	}
	w.remap()
	w.synced.Store(headerSize)
	return w, nil
}

// openFile renames the file to recycle, or makes a new one. If the rename fails, the old file is
// removed, because nobody knows of it any more. If the file was renamed and can't be opened or
// renewed, Create empties it.
func openFile(name string, o Options) (vfs.File, error) {
	if o.Recycle != 0 {
		old := filepath.Join(o.Dir, base.LogName(o.Recycle))
		if o.FS.Rename(old, name) != nil {
			_ = o.FS.Remove(old) // if this fails too, the next Open removes the file
		} else if f, err := o.FS.OpenReadWrite(name); err == nil {
			once, ok := vfs.AsWriteOnce(f)
			if !ok || once.Renew() == nil {
				return f, nil
			}
			_ = f.Close() // nothing was written to it
		}
	}
	return o.FS.Create(name)
}

// allocate reserves blocks up to first. A recycled file keeps all that it has.
func (p *Prepared) allocate(first int64) error {
	size, err := p.file.Size()
	if err != nil || p.opts.Prealloc <= 0 {
		return err
	}
	// One huge record may have made the recycled file long. It is cut.
	if size > 2*p.opts.Prealloc {
		size = p.opts.Prealloc
		if err := p.file.Truncate(size); err != nil {
			return err
		}
	}
	p.reserved, err = reserve(p.file, leastReserve, max(first, size))
	return err
}

// promised returns the length that the header states: the file will never be shorter, until
// it is trimmed. Read takes a shorter file for damage. So promised may only count blocks that
// are durable together with the header, and not the later growth of the file. It is small,
// because Shrink must keep what it promises.
func (p *Prepared) promised() int64 { return min(p.reserved, firstReserve) }

// writeHeader writes the header and syncs the file. The reserved length is durable together
// with it.
func (p *Prepared) writeHeader(h Header, syncDir bool) error {
	prealloc := p.promised()
	if _, once := vfs.AsWriteOnce(p.file); once || p.opts.Recycle != 0 {
		prealloc = max(prealloc-1, 0) | 1 // odd: see appendHeader
	}
	if err := writeAt(p.file, appendHeader(nil, h, prealloc), 0); err != nil {
		return err
	}
	if err := p.file.Sync(); err != nil {
		return err
	}
	if syncDir {
		return p.opts.FS.SyncDir(p.opts.Dir)
	}
	return nil
}

// reserve has the file system reserve blocks up to size want. If the disk has too little room
// it tries less, but never less than least. It returns the size that is reserved, or 0 if the
// file system can't reserve blocks.
func reserve(f vfs.File, least, want int64) (int64, error) {
	ahead := max(want-least, 0)
	for {
		size := (least + ahead + pageSize - 1) &^ (pageSize - 1)
		err := f.Preallocate(size)
		switch {
		case err == nil:
			return size, nil
		case errors.Is(err, vfs.ErrUnsupported):
			return 0, nil
		case ahead == 0 || !base.IsNoSpace(err):
			return 0, err
		}
		if ahead /= 2; ahead < pageSize {
			ahead = 0
		}
	}
}

// remap maps the reserved part of the file. A file that can't be mapped is written with
// system calls.
func (w *Writer) remap() {
	w.unmap()
	m, ok := w.file.(vfs.Mapper)
	if !ok || w.noMap || w.reserved == 0 {
		return
	}
	if mapping, err := m.Map(w.reserved); err == nil {
		w.mapping = mapping
	}
}

// unmap ends the mapping, if there is one.
func (w *Writer) unmap() {
	if w.mapping != nil {
		_ = w.mapping.Unmap() // a failure costs only address space: the file has the pages
		w.mapping = nil
	}
}
