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
	w := &Writer{header: h, codec: newCodec(h.StoreID, h.Num), lastSeq: h.PrevSeq, off: headerSize}
	w.length.Store(headerSize)
	w.cond.L = &w.mu
	name := filepath.Join(o.Dir, base.LogName(h.Num))
	var err error
	if w.file, err = openFile(name, o); err != nil {
		return nil, fmt.Errorf("wal: create log: %w", err)
	}
	if err := w.begin(o); err != nil {
		w.unmap()
		// The error at hand is the one to report; a file that stays has no
		// record and is known as never used.
		_ = w.file.Close()
		_ = o.FS.Remove(name)
		return nil, fmt.Errorf("wal: create %s: %w", base.LogName(h.Num), err)
	}
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

// begin reserves the blocks, writes the header and makes all that durable.
func (w *Writer) begin(o Options) error {
	size, err := w.file.Size()
	if err != nil {
		return err
	}
	if o.Prealloc > 0 {
		// A recycled file that one huge record has blown up is cut again.
		if size > 2*o.Prealloc {
			size = 0
			if err := w.file.Truncate(o.Prealloc); err != nil {
				return err
			}
		}
		if err := w.reserve(max(o.Prealloc, size, headerSize)); err != nil {
			return err
		}
	}
	// The header can promise what is there already, and no more: growth is not
	// durable before the records that it is for.
	header := appendHeader(nil, w.header, w.reserved)
	if err := writeAt(w.file, header, 0); err != nil {
		return err
	}
	if err := w.file.Sync(); err != nil {
		return err
	}
	if !mutant.NoDirSync {
		if err := o.FS.SyncDir(o.Dir); err != nil {
			return err
		}
	}
	w.noMap = o.NoMap
	w.remap()
	return nil
}

// reserve makes sure of the blocks up to size, where the file system can.
func (w *Writer) reserve(size int64) error {
	size = (size + pageSize - 1) &^ (pageSize - 1)
	err := w.file.Preallocate(size)
	if errors.Is(err, vfs.ErrUnsupported) {
		return nil
	}
	if err == nil {
		w.reserved = size
	}
	return err
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
