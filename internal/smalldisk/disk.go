// Package smalldisk is for tests: a file system with a limited number of blocks, over
// another one. It counts what files take as real ones do: blocks are taken when
// they are reserved or written to, and are free again when a file is cut, or has
// neither a name nor anybody who has it open. Names take no room.
package smalldisk

import (
	"errors"
	"io"
	"io/fs"
	"path/filepath"
	"sync"
	"syscall"

	"github.com/shaledb/shale/vfs"
)

// Block is the size of a block in bytes.
const Block = 4096

// A Disk is a file system of limited size. What lay on the base before counts for
// nothing. Many goroutines may use it.
type Disk struct {
	vfs.FS
	// Unreserved says that blocks can't be reserved: Preallocate returns
	// vfs.ErrUnsupported.
	Unreserved bool

	mu      sync.Mutex
	blocks  int64 // in all
	used    int64
	most    int64 // that were used
	refused int64 // calls, for lack of room
	inodes  map[string]*inode
}

// An inode is a file; blocks are those up to its furthest byte.
type inode struct{ blocks, names, handles int64 }

// New returns a disk with the given number of blocks over base.
func New(base vfs.FS, blocks int64) *Disk {
	return &Disk{FS: base, blocks: blocks, inodes: make(map[string]*inode)}
}

// Resize changes the number of blocks. It may fall below what is in use.
func (d *Disk) Resize(blocks int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.blocks = blocks
}

// Usage returns how many blocks are in use, the most that ever were, and how many
// calls have found no room.
func (d *Disk) Usage() (used, most, refused int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.used, d.most, d.refused
}

// Files returns how many blocks each file has that was created or opened on the disk.
func (d *Disk) Files() map[string]int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	files := make(map[string]int64)
	for name, n := range d.inodes {
		files[name] = n.blocks
	}
	return files
}

// takeLocked gives n the blocks up to end as far as there are any, and returns up
// to where it has them.
func (d *Disk) takeLocked(n *inode, end int64) int64 {
	want := (end+Block-1)/Block - n.blocks
	if want > 0 {
		got := max(min(want, d.blocks-d.used), 0)
		if got < want {
			d.refused++
		}
		n.blocks += got
		d.used += got
		d.most = max(d.most, d.used)
	}
	return n.blocks * Block
}

func (d *Disk) releaseLocked(n *inode) {
	if n.names == 0 && n.handles == 0 {
		d.used -= n.blocks
		n.blocks = 0
	}
}

// nodeLocked returns the file of that name, which is counted from now on.
func (d *Disk) nodeLocked(name string) *inode {
	name = filepath.Clean(name)
	n := d.inodes[name]
	if n == nil {
		n = &inode{names: 1}
		d.inodes[name] = n
	}
	return n
}

func (d *Disk) dropLocked(name string) {
	name = filepath.Clean(name)
	if n := d.inodes[name]; n != nil {
		delete(d.inodes, name)
		n.names--
		d.releaseLocked(n)
	}
}

func (d *Disk) open(name string, create bool, open func(string) (vfs.File, error)) (vfs.File, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f, err := open(name)
	if err != nil {
		return nil, err
	}
	n := d.nodeLocked(name)
	if create {
		d.used -= n.blocks
		n.blocks = 0
	}
	n.handles++
	return &file{File: f, disk: d, node: n, name: name}, nil
}

// Create empties a file that is there.
func (d *Disk) Create(name string) (vfs.File, error) { return d.open(name, true, d.FS.Create) }

// Open needs no room.
func (d *Disk) Open(name string) (vfs.File, error) { return d.open(name, false, d.FS.Open) }

// OpenReadWrite needs no room.
func (d *Disk) OpenReadWrite(name string) (vfs.File, error) {
	return d.open(name, false, d.FS.OpenReadWrite)
}

// Rename frees the file that newname was.
func (d *Disk) Rename(oldname, newname string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	err := d.FS.Rename(oldname, newname)
	if err == nil && filepath.Clean(oldname) != filepath.Clean(newname) {
		n := d.nodeLocked(oldname)
		d.dropLocked(newname)
		delete(d.inodes, filepath.Clean(oldname))
		d.inodes[filepath.Clean(newname)] = n
	}
	return err
}

// Remove frees a file that nobody has open.
func (d *Disk) Remove(name string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	err := d.FS.Remove(name)
	if err == nil {
		d.dropLocked(name)
	}
	return err
}

// Link needs no room.
func (d *Disk) Link(oldname, newname string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	err := d.FS.Link(oldname, newname)
	if err == nil {
		n := d.nodeLocked(oldname)
		n.names++
		d.inodes[filepath.Clean(newname)] = n
	}
	return err
}

// LockShared passes the lock on.
func (d *Disk) LockShared(name string) (io.Closer, error) {
	if l, ok := d.FS.(vfs.SharedLocker); ok {
		return l.LockShared(name)
	}
	return nil, vfs.ErrUnsupported
}

// file is an open file.
type file struct {
	vfs.File
	disk *Disk
	node *inode
	name string
	once sync.Once
}

func (f *file) full(op string) error {
	return &fs.PathError{Op: op, Path: f.name, Err: syscall.ENOSPC}
}

// WriteAt writes as much as there is room for.
func (f *file) WriteAt(p []byte, off int64) (int, error) {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	room := f.disk.takeLocked(f.node, off+int64(len(p))) - off
	if room >= int64(len(p)) {
		return f.File.WriteAt(p, off)
	}
	n, err := f.File.WriteAt(p[:max(room, 0)], off)
	return n, errors.Join(err, f.full("write"))
}

// Write writes as much as there is room for, at the end: nobody writes elsewhere by
// Write.
func (f *file) Write(p []byte) (int, error) {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	size, err := f.File.Size()
	if err != nil {
		return 0, err
	}
	room := f.disk.takeLocked(f.node, size+int64(len(p))) - size
	if room >= int64(len(p)) {
		return f.File.Write(p)
	}
	n, err := f.File.Write(p[:max(room, 0)])
	return n, errors.Join(err, f.full("write"))
}

// Preallocate takes all blocks or none.
func (f *file) Preallocate(size int64) error {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	if f.disk.Unreserved {
		return vfs.ErrUnsupported
	}
	before := f.node.blocks
	if f.disk.takeLocked(f.node, size) < size {
		f.disk.used -= f.node.blocks - before
		f.node.blocks = before
		return f.full("preallocate")
	}
	return f.File.Preallocate(size)
}

// Truncate frees what is cut off.
func (f *file) Truncate(size int64) error {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	err := f.File.Truncate(size)
	if keep := (size + Block - 1) / Block; err == nil && keep < f.node.blocks {
		f.disk.used -= f.node.blocks - keep
		f.node.blocks = keep
	}
	return err
}

// Close frees a file without a name.
func (f *file) Close() error {
	f.once.Do(func() {
		f.disk.mu.Lock()
		defer f.disk.mu.Unlock()
		f.node.handles--
		f.disk.releaseLocked(f.node)
	})
	return f.File.Close()
}

// Map maps what was preallocated, so that its writes need no room.
func (f *file) Map(size int64) (vfs.Mapping, error) {
	if m, ok := f.File.(vfs.Mapper); ok {
		return m.Map(size)
	}
	return nil, vfs.ErrUnsupported
}
