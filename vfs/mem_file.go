package vfs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"sync/atomic"
)

// maxMemFile is the largest size of a file in bytes. It bounds the table of
// pages, which takes 256 MiB for a file of this size with one byte at the end.
const maxMemFile = 1 << 36

var (
	errReadOnlyFile = errors.New("file was opened for reading")
	errFileTooLarge = errors.New("file too large")
	errOutOfMapping = errors.New("write outside the mapping or the file")
)

// memFile is an open file of a Mem.
type memFile struct {
	m        *Mem
	n        *inode
	name     string
	readOnly bool
	closed   atomic.Bool
	pos      int64 // write position of Write; owned by the one writer
}

// Create removes the contents of a file that exists already.
// Until the file is synced, a crash may bring them back.
func (m *Mem) Create(name string) (File, error) {
	m.begin(OpCreate, name)
	defer m.cut.RUnlock()
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := m.createLocked(name)
	if err != nil {
		return nil, memError(OpCreate, name, err)
	}
	n.resize(0, false)
	return m.newFile(n, name, false), nil
}

// createLocked returns the file with the name,
// and creates it if needed. Requires: mu is held.
func (m *Mem) createLocked(name string) (*inode, error) {
	at, node, err := m.place(name)
	if err != nil {
		return nil, err
	}
	switch node := node.(type) {
	case *inode:
		return node, nil
	case *memDir:
		return nil, errIsDir
	}
	n := m.newInode()
	m.change(nameOp{set: at, node: n})
	return n, nil
}

// Open opens a file for reading. Ops does not count it.
func (m *Mem) Open(name string) (File, error) {
	return m.openFile(OpOpen, name)
}

// OpenReadWrite opens a file for reading and writing.
// Ops counts it, because changes will follow.
func (m *Mem) OpenReadWrite(name string) (File, error) {
	m.begin(OpOpenReadWrite, name)
	defer m.cut.RUnlock()
	return m.openFile(OpOpenReadWrite, name)
}

// openFile opens an existing file. It holds mu only while it looks up the name.
func (m *Mem) openFile(op Op, name string) (File, error) {
	m.mu.RLock()
	_, node, err := m.place(name)
	m.mu.RUnlock()
	switch node := node.(type) {
	case *inode:
		f := m.newFile(node, name, op == OpOpen)
		f.pos = node.stat().Size
		return f, nil
	case *memDir:
		return nil, memError(op, name, errIsDir)
	}
	return nil, memError(op, name, err)
}

// newFile returns an open file for n.
func (m *Mem) newFile(n *inode, name string, readOnly bool) *memFile {
	m.open.Add(1)
	return &memFile{m: m, n: n, name: name, readOnly: readOnly}
}

// check returns the error of an operation that is not allowed: the file is
// closed, a file that was opened for reading is changed, or end is out of bounds.
func (f *memFile) check(op Op, change bool, end int64) error {
	switch {
	case f.closed.Load():
		return memError(op, f.name, fs.ErrClosed)
	case change && f.readOnly:
		return memError(op, f.name, errReadOnlyFile)
	case end < 0:
		return memError(op, f.name, fs.ErrInvalid)
	case end > maxMemFile:
		return memError(op, f.name, errFileTooLarge)
	}
	return nil
}

// ReadAt takes the lock of its file, shared with other reads.
func (f *memFile) ReadAt(p []byte, off int64) (int, error) {
	if err := f.check(OpRead, false, min(off, 0)); err != nil {
		return 0, err
	}
	n, _ := f.n.readAt(p, off)
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// Write is WriteAt at the write position, which it moves.
func (f *memFile) Write(p []byte) (int, error) {
	n, err := f.WriteAt(p, f.pos)
	f.pos += int64(n)
	return n, err
}

// WriteAt checks the bounds in two steps, because the sum of offset and length may overflow.
func (f *memFile) WriteAt(p []byte, off int64) (int, error) {
	if err := f.check(OpWrite, true, min(off, maxMemFile+1)); err != nil {
		return 0, err
	}
	if err := f.check(OpWrite, true, off+int64(len(p))); err != nil {
		return 0, err
	}
	f.m.begin(OpWrite, f.name)
	defer f.m.cut.RUnlock()
	f.n.writeAt(p, off, -1)
	return len(p), nil
}

// Sync makes all changes durable: it drops what is needed to undo them.
func (f *memFile) Sync() error {
	if err := f.check(OpSync, false, 0); err != nil {
		return err
	}
	f.m.begin(OpSync, f.name)
	defer f.m.cut.RUnlock()
	if f.n.sync() {
		f.m.noteSync()
	}
	return nil
}

// noteSync records that a journal has all changes of names up to now on the disk.
func (m *Mem) noteSync() {
	seq := m.nameSeq.Load()
	for {
		old := m.journaled.Load()
		if old >= seq || m.journaled.CompareAndSwap(old, seq) {
			return
		}
	}
}

// LoseUnsynced is called by package faultfs for a Sync that it makes fail.
func (f *memFile) LoseUnsynced() {
	f.m.cut.RLock()
	defer f.m.cut.RUnlock()
	f.n.loseUnsynced()
}

// Truncate changes the size. Until a Sync, a crash may
// undo it, whether the file became longer or shorter.
func (f *memFile) Truncate(size int64) error {
	return f.resize(OpTruncate, size, false)
}

// Preallocate makes the file longer. It reserves nothing,
// because there is no disk that could be full (see faultfs.FullFrom).
func (f *memFile) Preallocate(size int64) error {
	if size == 0 {
		return memError(OpPreallocate, f.name, fs.ErrInvalid)
	}
	return f.resize(OpPreallocate, size, true)
}

// resize changes the size. With keep, it does not make the file shorter.
func (f *memFile) resize(op Op, size int64, keep bool) error {
	if err := f.check(op, true, size); err != nil {
		return err
	}
	f.m.begin(op, f.name)
	defer f.m.cut.RUnlock()
	f.n.resize(size, keep)
	return nil
}

func (f *memFile) Size() (int64, error) {
	if err := f.check(OpStat, false, 0); err != nil {
		return 0, err
	}
	return f.n.stat().Size, nil
}

// Close closes the file. It makes nothing durable.
func (f *memFile) Close() error {
	if f.closed.Swap(true) {
		return memError(OpClose, f.name, fs.ErrClosed)
	}
	f.m.open.Add(-1)
	return nil
}

// A memMapping writes to a file as a shared mapping does. It does not make the file longer.
type memMapping struct {
	f    *memFile
	size int64
	err  error // set after a fault or Unmap: all later writes fail with it
}

// Map returns a mapping that uses the file's own memory.
func (f *memFile) Map(size int64) (Mapping, error) {
	if err := f.check(OpMap, true, size); err != nil {
		return nil, err
	}
	if size == 0 || size > f.n.stat().Size {
		return nil, memError(OpMap, f.name, fs.ErrInvalid)
	}
	return &memMapping{f: f, size: size}, nil
}

// WriteAt also works after the file was closed, as with a mapping of the operating system.
func (w *memMapping) WriteAt(p []byte, off int64) (int, error) {
	if w.err != nil {
		return 0, w.err
	}
	if off < 0 || off > w.size || int64(len(p)) > w.size-off {
		return 0, memError(OpMapWrite, w.f.name, errOutOfMapping)
	}
	w.f.m.begin(OpMapWrite, w.f.name)
	defer w.f.m.cut.RUnlock()
	if !w.f.n.writeAt(p, off, w.size) { // the file was cut under the mapping
		w.err = memError(OpMapWrite, w.f.name, fmt.Errorf("%w: the file was cut", errOutOfMapping))
		return 0, w.err
	}
	return len(p), nil
}

// Unmap ends the mapping. A second call returns an error.
func (w *memMapping) Unmap() error {
	if errors.Is(w.err, fs.ErrClosed) {
		return w.err
	}
	w.err = memError(OpUnmap, w.f.name, fs.ErrClosed)
	return nil
}
