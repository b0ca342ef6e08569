package shale

import (
	"sync"
	"sync/atomic"

	"github.com/shaledb/shale/vfs"
)

// A fileCache keeps at most limit table files open. A table reads through its
// tableFile, which opens the file when it is not open and closes another one
// in exchange. What is resident of a table, its filter and index, does not
// depend on the file being open.
type fileCache struct {
	fs    vfs.FS
	limit int

	mu     sync.Mutex
	idle   sync.Cond    // signalled when an open file is closed
	ring   []*tableFile // those with an open file, for CLOCK
	hand   int
	open   int // descriptors in use, also of files that are on their way out
	closed bool
}

func newFileCache(fs vfs.FS, limit int) *fileCache {
	c := &fileCache{fs: fs, limit: limit}
	c.idle.L = &c.mu
	return c
}

// A tableFile is an io.ReaderAt for a file that may or may not be open.
type tableFile struct {
	cache *fileCache
	path  string

	handle atomic.Pointer[fileHandle] // nil: not open
	used   atomic.Bool                // read again since the hand passed
	gone   atomic.Bool                // closed for good
}

// A fileHandle is an open descriptor, counted by the reads under way; the
// cache itself counts as one.
type fileHandle struct {
	file vfs.File
	refs atomic.Int64
}

func (h *fileHandle) acquire() bool {
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

func (c *fileCache) add(path string) *tableFile { return &tableFile{cache: c, path: path} }

// ReadAt reads from the file, opening it if need be. It returns ErrClosed
// after the cache was closed and errTableGone after the table was.
func (f *tableFile) ReadAt(p []byte, off int64) (int, error) {
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

func (f *tableFile) acquire() (*fileHandle, error) {
	if h := f.handle.Load(); h != nil && h.acquire() {
		if !f.used.Load() {
			f.used.Store(true)
		}
		return h, nil
	}
	return f.cache.openFile(f)
}

// openFile opens f, or finds that another reader just did.
func (c *fileCache) openFile(f *tableFile) (*fileHandle, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, ErrClosed
	}
	if f.gone.Load() {
		return nil, errTableGone
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
	h := &fileHandle{file: file}
	h.refs.Store(2) // the cache's and the caller's
	f.handle.Store(h)
	c.insertLocked(f)
	return h, nil
}

// insertLocked puts a file, just opened and read once, where the hand comes
// last. Only from its second read on it counts as used: what is read once, as by
// a scan, does not push out what is read often.
func (c *fileCache) insertLocked(f *tableFile) {
	c.ring = append(c.ring, f)
	if last := len(c.ring) - 1; c.hand < last {
		c.ring[c.hand], c.ring[last] = f, c.ring[c.hand]
	}
	c.hand++
}

// makeRoomLocked lets go of files that were not read since the last round
// until one more fits. A file that is being read is closed by its last reader.
func (c *fileCache) makeRoomLocked() {
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
func (c *fileCache) dropLocked(i int) {
	f := c.ring[i]
	last := len(c.ring) - 1
	c.ring[i] = c.ring[last]
	c.ring = c.ring[:last]
	if h := f.handle.Swap(nil); h != nil && h.refs.Add(-1) == 0 {
		_ = c.closeLocked(h) // opened for reading: nothing is lost by a failing close
	}
}

func (c *fileCache) release(h *fileHandle) error {
	if h.refs.Add(-1) > 0 {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.closeLocked(h)
}

func (c *fileCache) closeLocked(h *fileHandle) error {
	err := h.file.Close()
	c.open--
	c.idle.Broadcast()
	return err
}

// close ends the use of f for good. Reads under way finish.
func (f *tableFile) close() {
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

// close closes all files and waits for the reads under way.
func (c *fileCache) close() {
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
