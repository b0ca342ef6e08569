// Package filecache keeps a limited number of files
// open for reading: those that were read recently.
package filecache

import (
	"errors"
	"sync"
	"sync/atomic"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/vfs"
)

// ErrGone is the error of a read from a file that was closed for good.
var ErrGone = errors.New("shale: table is gone")

// A Cache keeps at most limit table files open. A table reads through its File,
// which opens the file when needed and closes another one instead. The index
// and the filter of a table are in memory, whether its file is open or not.
//
// Which file is closed is decided by CLOCK: a hand goes round the ring of open
// files, and closes the first one that was not read since the hand last passed it.
type Cache struct {
	fs    vfs.FS
	limit int

	mu     sync.Mutex // protects the following fields
	idle   sync.Cond  // signalled when an open file is closed
	ring   []*File    // the open files
	hand   int        // index in ring of the file to look at next
	open   int        // open descriptors, also of files that left the ring and are still being read
	closed bool
}

// New returns a cache that keeps up to limit files open. There may
// be more at a time, while more files than that are being read.
func New(fs vfs.FS, limit int) *Cache {
	c := &Cache{fs: fs, limit: limit}
	c.idle.L = &c.mu
	return c
}

// A File is an io.ReaderAt for a file that is opened when needed.
type File struct {
	cache *Cache
	path  string

	handle atomic.Pointer[handle] // nil: the file is not open
	used   atomic.Bool            // it was read a second time since it was opened, or since the hand passed
	gone   atomic.Bool            // it was closed for good
}

// A handle is an open descriptor with a count of references. The cache holds one, and
// each read in progress holds one. The last one to be given back closes the file.
type handle struct {
	file vfs.File
	refs atomic.Int64
}

// acquire takes a reference and reports whether it did. It does not if the
// count is 0: the last reference is gone, and the file is being closed. So a
// reader that has loaded the pointer before can't use a closed descriptor.
func (h *handle) acquire() bool {
	for {
		n := h.refs.Load()
		if n == 0 {
			return false
		}
		if h.refs.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

// Add returns the File with that path. It is opened by the first read.
func (c *Cache) Add(path string) *File { return &File{cache: c, path: path} }

// ReadAt reads from the file and opens it if needed. It returns
// base.ErrClosed if the cache is closed, and ErrGone if the File is.
func (f *File) ReadAt(p []byte, off int64) (int, error) {
	h, err := f.acquire()
	if err != nil {
		return 0, err
	}
	n, err := h.file.ReadAt(p, off)
	if closeErr := f.cache.release(h); closeErr != nil && err == nil {
		err = closeErr
	}
	return n, err
}

// TryReadAt is vfs.TryReader's. It opens the file if needed, and may wait for that. With
// vfs.ErrUnsupported, the file can't tell what is in memory.
func (f *File) TryReadAt(p []byte, off int64) error {
	h, err := f.acquire()
	if err != nil {
		return err
	}
	err = vfs.ErrUnsupported
	if t, ok := h.file.(vfs.TryReader); ok {
		err = t.TryReadAt(p, off)
	}
	if closeErr := f.cache.release(h); closeErr != nil && err == nil {
		err = closeErr
	}
	return err
}

// WillNeed is vfs.TryReader's. It does nothing if the file can't be opened.
func (f *File) WillNeed(off, n int64) {
	h, err := f.acquire()
	if err != nil {
		return
	}
	if t, ok := h.file.(vfs.TryReader); ok {
		t.WillNeed(off, n)
	}
	_ = f.cache.release(h) // the next read reports what is wrong with the file
}

// acquire returns the file's handle with a reference. If the file is open, it
// takes no lock. It also marks the file as used, but writes the mark only if
// it is not set: a write each time would slow down readers on other cores.
func (f *File) acquire() (*handle, error) {
	if h := f.handle.Load(); h != nil && h.acquire() {
		if !f.used.Load() {
			f.used.Store(true)
		}
		return h, nil
	}
	return f.cache.openFile(f)
}

// openFile opens f and returns its handle with a reference. If
// another reader has just opened f, it returns that handle.
func (c *Cache) openFile(f *File) (*handle, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, base.ErrClosed
	}
	if f.gone.Load() {
		return nil, ErrGone
	}
	if h := f.handle.Load(); h != nil && h.acquire() {
		return h, nil
	}
	c.makeRoomLocked()
	file, err := c.fs.Open(f.path)
	if err != nil {
		return nil, err
	}
	c.open++
	h := &handle{file: file}
	h.refs.Store(2) // the cache's and the caller's
	f.handle.Store(h)
	c.insertLocked(f)
	return h, nil
}

// insertLocked puts a file that was just opened into the ring, at the place that the hand
// reaches last. Its first read does not mark it as used. So files that are read once, by
// a scan for example, do not replace files that are read often. Requires: mu is held.
func (c *Cache) insertLocked(f *File) {
	c.ring = append(c.ring, f)
	if last := len(c.ring) - 1; c.hand < last {
		c.ring[c.hand], c.ring[last] = f, c.ring[c.hand]
	}
	c.hand++
}

// makeRoomLocked takes files out of the ring, by CLOCK, until there is room for one
// more. If a file is being read, its last reader closes it. Requires: mu is held.
func (c *Cache) makeRoomLocked() {
	for len(c.ring) >= c.limit {
		if c.hand >= len(c.ring) {
			c.hand = 0
		}
		f := c.ring[c.hand]
		if f.used.Swap(false) {
			c.hand++
			continue
		}
		c.dropLocked(c.hand)
	}
}

// dropLocked takes the file with index i out of the ring and
// gives back the cache's reference. Requires: mu is held.
func (c *Cache) dropLocked(i int) {
	f := c.ring[i]
	last := len(c.ring) - 1
	c.ring[i] = c.ring[last]
	c.ring = c.ring[:last]
	if h := f.handle.Swap(nil); h != nil && h.refs.Add(-1) == 0 {
		_ = c.closeLocked(h) // it was opened for reading, so nothing is lost if closing fails
	}
}

// release gives back a reader's reference, and closes the file if it was the last one.
func (c *Cache) release(h *handle) error {
	if h.refs.Add(-1) > 0 {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.closeLocked(h)
}

// closeLocked closes the file of h. Requires: mu is held, and h has no references.
func (c *Cache) closeLocked(h *handle) error {
	err := h.file.Close()
	c.open--
	c.idle.Broadcast()
	return err
}

// Close ends the use of f for good. Reads in progress finish.
func (f *File) Close() {
	c := f.cache
	c.mu.Lock()
	defer c.mu.Unlock()
	f.gone.Store(true)
	for i := range c.ring {
		if c.ring[i] == f {
			c.dropLocked(i)
			return
		}
	}
}

// Reset closes all files and waits for the reads in
// progress. The cache can be used again afterwards.
func (c *Cache) Reset() {
	c.Close()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = false
}

// Close closes all files and waits for the reads in
// progress. Later reads fail with base.ErrClosed.
func (c *Cache) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	for len(c.ring) > 0 {
		c.dropLocked(len(c.ring) - 1)
	}
	for c.open > 0 {
		c.idle.Wait()
	}
}
