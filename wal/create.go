package wal

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/vfs"
)

// Options say how a log is written.
type Options struct {
	FS  vfs.FS
	Dir string
	// Prealloc is the length in bytes that the log is going to have. Blocks are
	// reserved in advance up to there, so that a sync has nothing to write but
	// the records: all of them by Prepare; by Create a few, and more as the log
	// grows. Where the disk has less room, less is reserved. 0: nothing is, the
	// file grows with the records.
	Prealloc int64
	// NoMap writes by system calls even where the file can be mapped.
	NoMap bool
	// Recycle is a log that nothing needs any more: its file is renamed and
	// written over, which makes syncs cheaper still (the blocks are written
	// already). 0: none.
	Recycle base.FileNum
}

const (
	// firstReserve is how much of a new log is reserved by Create: a store that
	// is hardly written to takes hardly any room.
	firstReserve = 64 << 10
	// leastReserve is what a log needs to be of use: its header, and room for a
	// small record and a seal.
	leastReserve = headerSize + pageSize
)

// Create makes the file of log h.Num, recycled or new, and returns it with its
// header and its name durable. If it fails, it leaves no file of that name
// behind as far as it is able to.
func Create(h Header, o Options) (*Writer, error) {
	p, err := open(h.Num, o, firstReserve)
	if err != nil {
		return nil, err
	}
	return p.begin(h, true)
}

// A Prepared is the file of a log that is yet to begin. It has no header of its
// own, so until then a reader takes it for a log that was never used.
type Prepared struct {
	num      base.FileNum
	opts     Options
	file     vfs.File
	reserved int64
}

// Prepare does beforehand what takes the longest of Create: it makes the file,
// reserves its blocks, and makes both durable. Begin does the rest.
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

// Num returns the number that the log is going to have.
func (p *Prepared) Num() base.FileNum { return p.num }

// Begin makes the log of it, whose header and name are durable then. h.Num must
// be Num. If it fails, the file is gone as after a failed Create.
func (p *Prepared) Begin(h Header) (*Writer, error) { return p.begin(h, false) }

// Discard removes the file.
func (p *Prepared) Discard() error {
	return errors.Join(p.file.Close(), p.opts.FS.Remove(filepath.Join(p.opts.Dir, base.LogName(p.num))))
}

// Close leaves the file to the next who cleans up.
func (p *Prepared) Close() error { return p.file.Close() }

// open makes the file and reserves its blocks up to first, or up to Prealloc if
// that is less.
func open(num base.FileNum, o Options, first int64) (*Prepared, error) {
	p := &Prepared{num: num, opts: o}
	var err error
	if p.file, err = openFile(filepath.Join(o.Dir, base.LogName(num)), o); err != nil {
		return nil, fmt.Errorf("wal: create log: %w", err)
	}
	if err := p.allocate(min(first, o.Prealloc)); err != nil {
		_ = p.Discard() // the error at hand is the one to report; a file that stays is known as never used
		return nil, fmt.Errorf("wal: create %s: %w", base.LogName(num), err)
	}
	return p, nil
}

// begin writes the header and makes it durable, and the name too if need be.
func (p *Prepared) begin(h Header, syncDir bool) (*Writer, error) {
	w := &Writer{
		header: h, codec: newCodec(h.StoreID, h.Num), lastSeq: h.PrevSeq, off: headerSize,
		file: p.file, reserved: p.reserved, promised: p.promised(), expected: p.opts.Prealloc, noMap: p.opts.NoMap,
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

// openFile renames the file to recycle, or makes a new one. A file that can't
// be renamed is no loss: it stays where it is, obsolete. One that was renamed
// and can't be opened is emptied.
func openFile(name string, o Options) (vfs.File, error) {
	if o.Recycle != 0 && o.FS.Rename(filepath.Join(o.Dir, base.LogName(o.Recycle)), name) == nil {
		if f, err := o.FS.OpenReadWrite(name); err == nil {
			return f, nil
		}
	}
	return o.FS.Create(name)
}

// allocate reserves the blocks up to first, and all that a recycled file has.
func (p *Prepared) allocate(first int64) error {
	size, err := p.file.Size()
	if err != nil || p.opts.Prealloc <= 0 {
		return err
	}
	// A recycled file that one huge record has blown up is cut again.
	if size > 2*p.opts.Prealloc {
		size = p.opts.Prealloc
		if err := p.file.Truncate(size); err != nil {
			return err
		}
	}
	p.reserved, err = reserve(p.file, leastReserve, max(first, size))
	return err
}

// promised is the least length of the file, which the header states. The header
// can promise what is there already, and no more: growth is not durable before
// the records that it is for. It promises little, because Shrink may not take
// away what is promised.
func (p *Prepared) promised() int64 { return min(p.reserved, firstReserve) }

// writeHeader writes the header, durably.
func (p *Prepared) writeHeader(h Header, syncDir bool) error {
	if err := writeAt(p.file, appendHeader(nil, h, p.promised()), 0); err != nil {
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

// reserve makes sure of the blocks up to size want, where the file system can, or
// up to less if the disk has no room for that, but up to least at any rate. It
// returns up to where they are, or 0 where the file system can't.
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

// remap maps what is reserved. A file that can't be mapped is written by calls.
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
		_ = w.mapping.Unmap() // all it can lose is address space: the pages are the file's
		w.mapping = nil
	}
}
