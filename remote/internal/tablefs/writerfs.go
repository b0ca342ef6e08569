package tablefs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/remote/internal/object"
	"github.com/shaledb/shale/vfs"
)

// The file system of a writer that lets go of tables which its bucket has: of the tables in a directory, some are
// there, and the others are objects.

// A WriterFS is the file system of such a writer. A table is in one of three states:
//
//  1. It is a local file and nothing else. Tables does not know it.
//  2. It is both: Add was called, so Tables knows it. The store goes on reading the file.
//  3. It is an object: the file was removed, and Open finds the object.
//
// The store removes a table that it does not need any more in each of the states.
type WriterFS struct {
	FS
	// Room is called before a table is made. It waits until the local disk may take another one.
	Room func()
}

// Create makes a local file. For a table it waits until there is room.
func (w *WriterFS) Create(name string) (vfs.File, error) {
	if o, ok := objectOf(name); ok && o.Kind == object.KindTable {
		w.Room()
	}
	return w.FS.FS.Create(name)
}

// Remove removes a local file. If there is none and the table is an object, nobody needs it here any more: its tail is
// removed. The object stays for the steps that name it.
func (w *WriterFS) Remove(name string) error {
	err := w.FS.FS.Remove(name)
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if o, ok := objectOf(name); ok && w.Tables.Drop(o) {
		return nil
	}
	return err
}

// Link links a local file. An object can't be linked.
func (w *WriterFS) Link(oldname, newname string) error {
	err := w.FS.FS.Link(oldname, newname)
	if errors.Is(err, fs.ErrNotExist) {
		if o, ok := objectOf(oldname); ok && w.Tables.Has(o) {
			return fmt.Errorf("%w: %s is only in the bucket: a pin keeps the state there (Store.Pin), and Restore makes a directory of it: %w", base.ErrElsewhere, o, err)
		}
	}
	return err
}

// Bind implements vfs.Binder. Both file systems have the same tables.
func (w *WriterFS) Bind(lock io.Closer) (vfs.FS, error) {
	local, err := vfs.Bind(w.FS.FS, lock)
	if err != nil {
		return nil, err
	}
	return &WriterFS{FS: FS{FS: local, Tables: w.Tables}, Room: w.Room}, nil
}

// Abs implements vfs.PathFS.
func (w *WriterFS) Abs(name string) (string, error) { return vfs.Abs(w.FS.FS, name) }

// Within implements vfs.PathFS.
func (w *WriterFS) Within(name, dir string) (bool, error) { return vfs.Within(w.FS.FS, name, dir) }

// Resolve implements vfs.Resolver.
func (w *WriterFS) Resolve(name string) string { return vfs.Resolve(w.FS.FS, name) }

// Add makes a table known that src has, the local file, and keeps its tail, whose length it returns. From then on the file
// may be removed.
func (b *Tables) Add(f File, src io.ReaderAt) (tail int64, err error) {
	at, err := b.Tails.adopt(f, src)
	if err != nil {
		return 0, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.known[f.Num] = f
	return f.Size - at, nil
}

// Drop makes a table unknown, and reports whether it was known. Its tail goes when it is not open any more.
func (b *Tables) Drop(o object.Name) bool {
	b.mu.Lock()
	f, there := b.known[o.Num]
	if there = there && f.Kind == o.Kind; there {
		delete(b.known, o.Num)
	}
	open := b.opened[f.fileID] != nil
	b.mu.Unlock()
	if there && !open {
		b.Tails.forget(f.fileID)
	}
	return there
}

// Has reports whether a table is known.
func (b *Tables) Has(o object.Name) bool {
	_, there := b.find(o)
	return there
}

// CopyBytes returns how many bytes of local room the tails and the cache of pages take.
func (b *Tables) CopyBytes() int64 { return b.Tails.bytes() + b.pages.bytes() }

// CopyBytesWith is CopyBytes if the cache of pages had been opened with another size.
func (b *Tables) CopyBytesWith(pages int64) int64 {
	sum := b.Tails.bytes()
	if b.pages.file != nil {
		sum += fileBytes(pages)
	}
	return sum
}
