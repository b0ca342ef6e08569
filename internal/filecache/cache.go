// Package filecache keeps a limited number of files open for reading, those that were
// read of late.
package filecache

import (
	"errors"
	"sync"
	"sync/atomic"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/vfs"
)

// ErrGone is what a read gets from a file that was closed for good.
var ErrGone = errors.New("shale: table is gone")

// A Cache keeps at most limit table files open. A table reads through its
// File, which opens the file when it is not open and closes another one
// in exchange. What is resident of a table, its filter and index, does not
// depend on the file being open.
type Cache struct {
	fs    vfs.FS
	limit int

	mu     sync.Mutex
	idle   sync.Cond // signalled when an open file is closed
	ring   []*File   // those with an open file, for CLOCK
	hand   int
	open   int // descriptors in use, also of files that are on their way out
	closed bool
}

// New returns a cache that keeps up to limit files open. More are open while more are being
// read.
func New(fs vfs.FS, limit int) *Cache {
	c := &Cache{fs: fs, limit: limit}
	c.idle.L = &c.mu
	return c
}

// A File is an io.ReaderAt for a file that may or may not be open.
type File struct {
	cache *Cache
	path  string

	handle atomic.Pointer[handle] // nil: not open
	used   atomic.Bool            // read again since the hand passed
	gone   atomic.Bool            // closed for good
}

// A handle is an open descriptor, counted by the reads under way; the
// cache itself counts as one.
type handle struct {
	file vfs.File
	refs atomic.Int64
}

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

// Add returns the file of that name. It is opened when it is read for the first time.
func (c *Cache) Add(path string) *File { return &File{cache: c, path: path} }

// ReadAt reads from the file, opening it if need be. It returns ErrClosed
// after the cache was closed and ErrGone after the table was.
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

func (f *File) acquire() (*handle, error) {
	if h := f.handle.Load(); h != nil && h.acquire() {
		if !f.used.Load() {
			f.used.Store(true)
		}
		return h, nil
	}
	return f.cache.openFile(f)
}

// openFile opens f, or finds that another reader just did.
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

// insertLocked puts a file, just opened and read once, where the hand comes
// last. Only from its second read on it counts as used: what is read once, as by
// a scan, does not push out what is read often.
func (c *Cache) insertLocked(f *File) {
	c.ring = append(c.ring, f)
	if last := len(c.ring) - 1; c.hand < last {
		c.ring[c.hand], c.ring[last] = f, c.ring[c.hand]
	}
	c.hand++
}

// makeRoomLocked lets go of files that were not read since the last round
// until one more fits. A file that is being read is closed by its last reader.
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

// dropLocked takes the file at position i out of the ring and gives up the
// cache's reference.
func (c *Cache) dropLocked(i int) {
	f := c.ring[i]
	last := len(c.ring) - 1
	c.ring[i] = c.ring[last]
	c.ring = c.ring[:last]
	if h := f.handle.Swap(nil); h != nil && h.refs.Add(-1) == 0 {
		_ = c.closeLocked(h) // opened for reading: nothing is lost by a failing close
	}
}

func (c *Cache) release(h *handle) error {
	if h.refs.Add(-1) > 0 {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.closeLocked(h)
}

func (c *Cache) closeLocked(h *handle) error {
	err := h.file.Close()
	c.open--
	c.idle.Broadcast()
	return err
}

// Close ends the use of f for good. Reads under way finish.
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

// Reset closes all files, waits for the reads under way, and leaves an empty cache.
func (c *Cache) Reset() {
	c.Close()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = false
}

// Close closes all files and waits for the reads under way. Reads to come fail with
// ErrClosed.
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
