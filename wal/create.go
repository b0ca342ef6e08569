package wal

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/mutant"
	"github.com/shaledb/shale/vfs"
)

// Options say how a log is written.
type Options struct {
	FS  vfs.FS
	Dir string
	// Prealloc is the length in bytes for which blocks are reserved in
	// advance, so that a sync has nothing to write but the records. 0: none,
	// the file grows with them.
	Prealloc int64
	// NoMap writes by system calls even where the file can be mapped.
	NoMap bool
	// Recycle is a log that nothing needs any more: its file is renamed and
	// written over, which makes syncs cheaper still (the blocks are written
	// already). 0: none.
	Recycle base.FileNum
}

// Create makes the file of log h.Num, recycled or new, and returns it with its
// header and its name durable. If it fails, it leaves no file of that name
// behind as far as it is able to.
func Create(h Header, o Options) (*Writer, error) {
	p, err := open(h.Num, o)
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
	p, err := open(num, o)
	if err != nil {
		return nil, err
	}
	if err = p.file.Sync(); err == nil && !mutant.NoDirSync {
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

// open makes the file and reserves its blocks.
func open(num base.FileNum, o Options) (*Prepared, error) {
	p := &Prepared{num: num, opts: o}
	var err error
	if p.file, err = openFile(filepath.Join(o.Dir, base.LogName(num)), o); err != nil {
		return nil, fmt.Errorf("wal: create log: %w", err)
	}
	if err := p.allocate(); err != nil {
		_ = p.Discard() // the error at hand is the one to report; a file that stays is known as never used
		return nil, fmt.Errorf("wal: create %s: %w", base.LogName(num), err)
	}
	return p, nil
}

// begin writes the header and makes it durable, and the name too if need be.
func (p *Prepared) begin(h Header, syncDir bool) (*Writer, error) {
	w := &Writer{
		header: h, codec: newCodec(h.StoreID, h.Num), lastSeq: h.PrevSeq, off: headerSize,
		file: p.file, reserved: p.reserved, noMap: p.opts.NoMap,
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

// allocate reserves the blocks.
func (p *Prepared) allocate() error {
	size, err := p.file.Size()
	if err != nil || p.opts.Prealloc <= 0 {
		return err
	}
	// A recycled file that one huge record has blown up is cut again.
	if size > 2*p.opts.Prealloc {
		size = 0
		if err := p.file.Truncate(p.opts.Prealloc); err != nil {
			return err
		}
	}
	p.reserved, err = reserve(p.file, max(p.opts.Prealloc, size, headerSize))
	return err
}

// writeHeader writes the header, durably.
func (p *Prepared) writeHeader(h Header, syncDir bool) error {
	// The header can promise what is there already, and no more: growth is not
	// durable before the records that it is for.
	if err := writeAt(p.file, appendHeader(nil, h, p.reserved), 0); err != nil {
		return err
	}
	if err := p.file.Sync(); err != nil {
		return err
	}
	if syncDir && !mutant.NoDirSync {
		return p.opts.FS.SyncDir(p.opts.Dir)
	}
	return nil
}

// reserve makes sure of the blocks up to size, where the file system can, and
// returns up to where they are, or 0.
func reserve(f vfs.File, size int64) (int64, error) {
	size = (size + pageSize - 1) &^ (pageSize - 1)
	err := f.Preallocate(size)
	if errors.Is(err, vfs.ErrUnsupported) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	return size, nil
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
