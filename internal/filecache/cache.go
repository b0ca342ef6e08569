// Package filecache keeps a limited number of files
// open for reading: those that were read recently.
package filecache

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"sync/atomic"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/lockorder"
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

	// Foreign says that the files are another process's, so that a backup may take their place
	// at any time. A file that is opened again must then be the one that it was: see recognize.
	// It is set before the first use.
	Foreign bool

	// mu protects the following fields. It is never held while a file is opened or closed, so
	// that a slow disk delays only those who read that file.
	mu      lockorder.Mutex[lockorder.Leaf]
	idle    sync.Cond // signalled when an open file is closed
	ring    []*File   // the open files
	hand    int       // index in ring of the file to look at next
	opening int       // files that are being opened
	open    int       // open descriptors, also of files that left the ring, or that are being opened or closed
	closed  bool
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
	remote atomic.Bool            // it was a vfs.RemoteFile when it was opened last, or may be one now

	// Guarded by the cache's mu.
	attempt *attempt // to open the file, which is under way; nil: there is none
	slot    int      // 1 + the file's index in ring; 0: it is not in there
	opened  bool     // it was open before

	// how the file ended when it was opened first, if Foreign is set; used by attempts only
	end string
}

// An attempt is one try to open a file. The goroutine that begins it opens the
// file. Others that want to read the same file meanwhile wait until it ends.
type attempt struct {
	drop []*handle     // other files that make room for this one; the goroutine closes them first
	done chan struct{} // closed when the attempt has ended
	err  error         // why the file could not be opened; set before done is closed
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

// ErrorName returns what errors about the file call it, if that is not its name in the directory: the file system
// says so, which may have the file in another place. Otherwise it returns "".
func (f *File) ErrorName() string {
	if n, ok := f.cache.fs.(interface{ ErrorName(path string) string }); ok {
		return n.ErrorName(f.path)
	}
	return ""
}

// Lost reports whether the file system says that the file is damaged or missing for good, and that its table is to be
// opened all the same: only what needs it fails then.
func (f *File) Lost() bool {
	l, ok := f.cache.fs.(interface{ Lost(path string) bool })
	return ok && l.Lost(f.path)
}

// ReadAt reads from the file and opens it if needed. It returns
// base.ErrClosed if the cache is closed, and ErrGone if the File is.
func (f *File) ReadAt(p []byte, off int64) (n int, err error) {
	h, err := f.acquire()
	if err != nil {
		return 0, err
	}
	// Also if the file system panics: Close waits for the reference.
	defer func() {
		if closeErr := f.cache.release(h); closeErr != nil && err == nil {
			err = closeErr
		}
	}()
	return h.file.ReadAt(p, off)
}

// TryReadAt is vfs.TryReader's. It opens the file if needed, and may wait for that. With
// vfs.ErrUnsupported, the file can't tell what is in memory.
func (f *File) TryReadAt(p []byte, off int64) (err error) {
	h, err := f.acquire()
	if err != nil {
		return err
	}
	defer func() {
		if closeErr := f.cache.release(h); closeErr != nil && err == nil {
			err = closeErr
		}
	}()
	if t, ok := h.file.(vfs.TryReader); ok {
		return t.TryReadAt(p, off)
	}
	return vfs.ErrUnsupported
}

// WillNeed is vfs.TryReader's. It does nothing if the file can't be opened.
func (f *File) WillNeed(off, n int64) {
	h, err := f.acquire()
	if err != nil {
		return
	}
	defer func() { _ = f.cache.release(h) }() // the next read reports what is wrong with the file
	if t, ok := h.file.(vfs.TryReader); ok {
		t.WillNeed(off, n)
	}
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

// openFile opens f and returns its handle with a reference. If another
// reader is just opening f, it waits for that one and takes its handle.
func (c *Cache) openFile(f *File) (*handle, error) {
	for {
		h, other, err := c.begin(f)
		switch {
		case err != nil || h != nil:
			return h, err
		case other == nil:
			return c.finish(f)
		}
		<-other.done
		if other.err != nil {
			return nil, other.err
		}
		// The file is open now, or it was and had to make room for others already.
	}
}

// begin returns f's handle with a reference, if f is open, or the attempt of the reader that is
// opening it. If both are nil, the caller must call finish: it has begun an attempt of its own.
func (c *Cache) begin(f *File) (*handle, *attempt, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.usableLocked(f); err != nil {
		return nil, nil, err
	}
	if h := f.handle.Load(); h != nil && h.acquire() {
		return h, nil, nil
	}
	if f.attempt != nil {
		return nil, f.attempt, nil
	}
	f.attempt = &attempt{drop: c.makeRoomLocked(), done: make(chan struct{})}
	c.opening++
	c.open++
	return nil, nil, nil
}

// usableLocked returns the error with which reads of f fail. Requires: mu is held.
func (c *Cache) usableLocked(f *File) error {
	switch {
	case c.closed:
		return base.ErrClosed
	case f.gone.Load():
		return ErrGone
	}
	return nil
}

// errPanicked is what the others get that wait for an opener whose file system panics.
var errPanicked = errors.New("shale: the file system panicked while it opened a table")

// finish opens f, ends the attempt that the caller has begun, and
// returns the handle with a reference. Requires: mu is not held.
func (c *Cache) finish(f *File) (h *handle, err error) {
	var file vfs.File
	err = errPanicked
	defer func() {
		c.mu.Lock()
		c.opening--
		// The cache, or the file, may have been closed meanwhile. The file may even have been removed, so
		// that it could not be opened. Readers must learn that it is gone: they look elsewhere then.
		err = cmp.Or(c.usableLocked(f), err)
		switch {
		case err == nil:
			h = &handle{file: file}
			h.refs.Store(2) // the cache's and the caller's
			f.handle.Store(h)
			_, remote := file.(vfs.RemoteFile)
			f.remote.Store(remote)
			c.insertLocked(f)
			f.opened = true
		case f.opened && errors.Is(err, fs.ErrNotExist):
			err = fmt.Errorf("%w: it was closed because at most %d files are kept open (Options.Tuning.MaxOpenFiles), and removed since", err, c.limit)
		}
		f.attempt.err = err
		close(f.attempt.done)
		f.attempt = nil
		c.mu.Unlock()
		if err != nil {
			_ = c.close(file) // it was opened for reading, so nothing is lost if closing fails
		}
	}()
	c.closeAll(f.attempt.drop) // here: a file system that panics ends the attempt
	opened, openErr := c.fs.Open(f.path)
	if openErr != nil {
		return nil, openErr
	}
	file = opened // the deferred function closes it if recognize fails or panics
	return nil, f.recognize(file)
}

// recognized is how many bytes at the end of a file tell it from others. Tables and sidecars end
// with a footer that has the checksum of all that comes before.
const recognized = 128

// recognize returns an error that wraps ErrReplaced and fs.ErrNotExist if file is not the one that
// was opened by this name at first. A restored store gives the same numbers to other tables, whose blocks check.
func (f *File) recognize(file vfs.File) error {
	if !f.cache.Foreign {
		return nil
	}
	size, err := file.Size()
	if err != nil {
		return err
	}
	end := make([]byte, min(size, recognized))
	if n, err := file.ReadAt(end, size-int64(len(end))); n < len(end) {
		return err
	}
	switch now := string(end) + fmt.Sprint(size); f.end {
	case "":
		f.end = now
	case now:
	default:
		return fmt.Errorf("open %s: another file has its name: %w: %w", f.path, base.ErrReplaced, fs.ErrNotExist)
	}
	return nil
}

// insertLocked puts a file that was just opened into the ring, at the place that the hand
// reaches last. Its first read does not mark it as used. So files that are read once, by
// a scan for example, do not replace files that are read often. Requires: mu is held.
func (c *Cache) insertLocked(f *File) {
	c.ring = append(c.ring, f)
	last := len(c.ring) - 1
	f.slot = last + 1
	if c.hand < last {
		c.moveLocked(c.ring[c.hand], last)
		c.moveLocked(f, c.hand)
	}
	c.hand++
}

// moveLocked puts f into the place with index i. Requires: mu is held.
func (c *Cache) moveLocked(f *File, i int) {
	c.ring[i] = f
	f.slot = i + 1
}

// makeRoomLocked takes files out of the ring, by CLOCK, until there is room for one
// more. It returns the handles that the caller closes once it has given up the lock. If
// a file is being read, its last reader closes it. Requires: mu is held.
func (c *Cache) makeRoomLocked() (drop []*handle) {
	for len(c.ring) > 0 && len(c.ring)+c.opening >= c.limit {
		if c.hand >= len(c.ring) {
			c.hand = 0
		}
		f := c.ring[c.hand]
		if f.used.Swap(false) {
			c.hand++
			continue
		}
		drop = c.dropLocked(f, drop)
	}
	return drop
}

// dropLocked takes f out of the ring and gives back the cache's reference. If that was
// the last one, it appends the handle to drop, for the caller to close. Requires: mu is
// held, and f is in the ring.
func (c *Cache) dropLocked(f *File, drop []*handle) []*handle {
	last := len(c.ring) - 1
	c.moveLocked(c.ring[last], f.slot-1)
	f.slot = 0
	c.ring[last] = nil
	c.ring = c.ring[:last]
	if h := f.handle.Swap(nil); h != nil && h.refs.Add(-1) == 0 {
		drop = append(drop, h)
	}
	return drop
}

// release gives back a reader's reference, and closes the file if it was the last one.
func (c *Cache) release(h *handle) error {
	if h.refs.Add(-1) > 0 {
		return nil
	}
	return c.close(h.file)
}

// closeAll closes handles that have no references. Requires: mu is not held.
func (c *Cache) closeAll(drop []*handle) {
	for _, h := range drop {
		// It was opened for reading, so nothing is lost if closing fails. All are closed, also if
		// the file system panics.
		defer func() { _ = c.close(h.file) }()
	}
}

// close closes a file, or counts that a file which was to be opened could not be, if it is
// nil. Requires: mu is not held.
func (c *Cache) close(file vfs.File) (err error) {
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.open--
		c.idle.Broadcast()
	}()
	if file != nil {
		return file.Close()
	}
	return nil
}

// Close ends the use of f for good. Reads in progress finish.
func (f *File) Close() {
	f.gone.Store(true)
	f.letGo()
}

// Reopen makes the next read open the file again: what the file system has by its name may lie elsewhere now. Reads in
// progress finish with what they have opened, and when they have, the cache has nothing of that.
func (f *File) Reopen() {
	if attempt := f.letGo(); attempt != nil {
		<-attempt.done // it may have opened the file before it lay elsewhere
		f.letGo()
	}
	f.remote.Store(true)
}

// letGo takes f out of the ring. It returns the attempt to open f that is under way; nil: there is none.
func (f *File) letGo() *attempt {
	c := f.cache
	c.mu.Lock()
	var drop []*handle
	if f.slot > 0 {
		drop = c.dropLocked(f, nil)
	}
	under := f.attempt
	c.mu.Unlock()
	c.closeAll(drop)
	return under
}

// Close closes all files and waits for the reads in
// progress. Later reads fail with base.ErrClosed.
func (c *Cache) Close() {
	c.mu.Lock()
	c.closed = true
	var drop []*handle
	for len(c.ring) > 0 {
		drop = c.dropLocked(c.ring[len(c.ring)-1], drop)
	}
	c.mu.Unlock()
	c.closeAll(drop)
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.open > 0 {
		c.idle.Wait()
	}
}
