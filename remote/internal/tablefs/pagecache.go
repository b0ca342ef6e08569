package tablefs

import (
	"errors"
	"io"
	"sync"

	"github.com/shaledb/shale/remote/internal/bucket"
	"github.com/shaledb/shale/vfs"
)

// A cache of pages that can lose any of them at any time, and is never wrong: what it gives was
// checked.

// A page has pageSize bytes of a table, from a multiple of pageSize on.
const pageSize = 64 << 10

// maxPages is the largest number of pages of a cache: 4 TiB.
// So the number of a slot fits into an int32.
const maxPages = 1 << 26

// A pageID names a page of a table.
type pageID struct {
	fileID
	page uint32
}

// A pageInfo says what a page of the cache has: bytes from to to of a page of a table.
type pageInfo struct {
	pageID
	from, to uint32
	sum      uint32 // of these bytes
}

// A pageCache keeps pages of the data blocks of tables, in memory or in a local file. The file has its full size from the
// beginning, and nothing but pages, one behind the other: what they are is known to this process only, so the next one
// begins with an empty cache. Which page makes room for another one is decided by CLOCK: a hand goes round, and takes the
// first page that was not read since the hand last passed it.
//
// A page is there from some byte up to another: a block that lies across the border of two pages is fetched
// with one GET of 64 KiB, which has a part of each.
//
// A page whose checksum is wrong is a miss, and so is one that can't be read. A page that can't be written is not cached.
// So the cache never has an error.
type pageCache struct {
	// Constant.
	file   vfs.File // nil: in memory
	memory [][]byte // the pages in memory; each is allocated when it is first used

	mu    sync.Mutex // protects the following fields; not held during I/O
	slots []slot
	index map[pageID]int32 // the slots whose info is valid
	hand  int
}

// A slot is a place for one page.
type slot struct {
	info pageInfo // valid if the index has it
	used bool     // it was read since the hand passed
	pins int32    // reads of the page, or a write, that are under way; the hand passes it by
	gone bool     // it was dropped during a read
}

// NewPageCache returns a cache in memory of the given size in bytes.
func NewPageCache(bytes int64) *pageCache {
	n := pagesIn(bytes)
	return &pageCache{memory: make([][]byte, n), slots: make([]slot, n), index: make(map[pageID]int32)}
}

// pagesIn returns for how many pages there is room in a number of bytes.
func pagesIn(bytes int64) int64 { return min(max(bytes, 0)/pageSize, maxPages) }

// fileBytes returns the size of the file of a cache that is opened with a number of bytes: one page at least.
func fileBytes(bytes int64) int64 { return max(pagesIn(bytes), 1) * pageSize }

// ErrWriteOnce says that a cache can't be in a file of an encrypted file system.
var ErrWriteOnce = errors.New("it writes over its file, and an encrypted file takes each byte once: give ReaderOptions.FS another file system, or no Dir")

// OpenPageCache returns a cache in the file with the given name, of one page at least. The disk has room for all of it, or
// there is an error now.
func OpenPageCache(fsys vfs.FS, name string, bytes int64) (*pageCache, error) {
	file, err := fsys.Create(name)
	if err != nil {
		return nil, err
	}
	if _, once := vfs.AsWriteOnce(file); once {
		return nil, errors.Join(ErrWriteOnce, file.Close())
	}
	n := fileBytes(bytes) / pageSize
	err = file.Preallocate(n * pageSize)
	if errors.Is(err, vfs.ErrUnsupported) {
		err = file.Truncate(n * pageSize)
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return &pageCache{file: file, slots: make([]slot, n), index: make(map[pageID]int32)}, nil
}

// close closes the file. Requires: no other call is under way.
func (c *pageCache) close() error {
	if c.file == nil {
		return nil
	}
	return c.file.Close()
}

// bytes returns the size of the file of the cache; 0: it is in memory.
func (c *pageCache) bytes() int64 {
	if c.file == nil {
		return 0
	}
	return int64(len(c.slots)) * pageSize
}

// read fills p with bytes of a page from offset from, which is one within the page, and reports whether it
// did. Requires: p ends within the page.
func (c *pageCache) read(id pageID, p []byte, from uint32) bool {
	to := from + uint32(len(p))
	c.mu.Lock()
	i, there := c.index[id]
	if !there || from < c.slots[i].info.from || to > c.slots[i].info.to {
		c.mu.Unlock()
		return false
	}
	s := &c.slots[i]
	s.used = true
	s.pins++
	// The pin keeps the slot from being given to another page while it is read without the lock.
	info := s.info
	c.mu.Unlock()
	err := c.loadPage(i, info, p, from)
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil && !s.gone {
		c.dropLocked(i)
	}
	c.unpinLocked(s)
	return err == nil
}

// holds reports whether the cache has these bytes of a page, as far as its index says.
// The page may be gone a moment later, so the answer serves only to decide what to fetch.
func (c *pageCache) holds(id pageID, from, to uint32) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	i, there := c.index[id]
	return there && c.slots[i].info.from <= from && to <= c.slots[i].info.to
}

var pageBuffers = sync.Pool{New: func() any { return new([pageSize]byte) }}

// loadPage fills p with bytes of slot i. From a file it reads all that the page has, to check it.
// Requires: the slot is pinned.
// Pages in memory are not checked, because nothing but this process can change them.
func (c *pageCache) loadPage(i int32, info pageInfo, p []byte, from uint32) error {
	if c.file == nil {
		copy(p, c.memory[i][from:])
		return nil
	}
	buf := pageBuffers.Get().(*[pageSize]byte)
	defer pageBuffers.Put(buf)
	b := buf[info.from:info.to]
	at := int64(i)*pageSize + int64(info.from)
	if n, err := c.file.ReadAt(b, at); n < len(b) {
		if err == nil {
			err = io.ErrUnexpectedEOF
		}
		return err
	}
	if bucket.Checksum(b) != info.sum {
		return bucket.ErrChecksum
	}
	copy(p, buf[from:])
	return nil
}

// write keeps b, which are bytes of a page from offset from. It replaces what the cache has of the page.
func (c *pageCache) write(id pageID, b []byte, from uint32) {
	info := pageInfo{pageID: id, from: from, to: from + uint32(len(b)), sum: bucket.Checksum(b)}
	c.mu.Lock()
	if i, there := c.index[id]; there {
		if old := c.slots[i].info; old.from <= info.from && info.to <= old.to {
			c.mu.Unlock()
			return // what is there is as much
		}
		c.dropLocked(i)
	}
	i, ok := c.victimLocked()
	if !ok {
		c.mu.Unlock()
		return
	}
	s := &c.slots[i]
	s.pins++
	c.mu.Unlock()
	err := c.store(i, info, b)
	c.mu.Lock()
	defer c.mu.Unlock()
	// Another goroutine may have cached the same page meanwhile. Then its slot counts, and this one
	// stays free.
	if _, twice := c.index[id]; err == nil && !twice {
		s.info, s.used = info, false // a page that is never read again goes first
		c.index[id] = i
	}
	c.unpinLocked(s)
}

// store writes a page. Requires: the slot is pinned and not in the index.
func (c *pageCache) store(i int32, info pageInfo, b []byte) error {
	if c.file == nil {
		if c.memory[i] == nil {
			c.memory[i] = make([]byte, pageSize)
		}
		copy(c.memory[i][info.from:], b)
		return nil
	}
	_, err := c.file.WriteAt(b, int64(i)*pageSize+int64(info.from))
	return err
}

// victimLocked returns a slot that is free, or makes one free. ok is false if all are pinned. Two rounds of
// the hand are enough: the first takes the marks away, and the second finds a page without one.
func (c *pageCache) victimLocked() (i int32, ok bool) {
	for range 2*len(c.slots) + 1 {
		if c.hand >= len(c.slots) {
			c.hand = 0
		}
		i := int32(c.hand)
		if len(c.slots) == 0 {
			return 0, false
		}
		c.hand++
		s := &c.slots[i]
		switch {
		case s.pins > 0:
		case s.used:
			s.used = false
		default:
			if c.heldLocked(i) {
				delete(c.index, s.info.pageID)
			}
			return i, true
		}
	}
	return 0, false
}

// heldLocked reports whether the index leads to slot i.
func (c *pageCache) heldLocked(i int32) bool {
	at, there := c.index[c.slots[i].info.pageID]
	return there && at == i
}

// dropLocked makes the page of slot i a miss. The slot is free once nobody reads it.
// A read that is under way ends with what it has, and sees by gone that the page is dropped
// already.
func (c *pageCache) dropLocked(i int32) {
	s := &c.slots[i]
	delete(c.index, s.info.pageID)
	s.used = false
	s.gone = s.pins > 0
}

// unpinLocked ends a read or a write of a slot.
func (c *pageCache) unpinLocked(s *slot) {
	if s.pins--; s.pins == 0 {
		s.gone = false
	}
}

// forget drops all pages of a table, because bytes that were fetched of it are wrong. Which page has them is
// not known: a block may lie in two. It goes through all slots, which is rare enough.
func (c *pageCache) forget(id fileID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range c.slots {
		if c.slots[i].info.fileID == id && c.heldLocked(int32(i)) {
			c.dropLocked(int32(i))
		}
	}
}
