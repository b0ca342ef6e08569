package vfs

import (
	"sync"
	"time"
)

// An inode is a file of a Mem, which may have any number of names.
//
// data is what readers see. What the disk has for certain is data
// without the changes in undo, taken back newest first. So a synced
// file takes no more memory than its bytes, and a sync copies nothing.
type inode struct {
	id uint64 // in the order of creation; part of the seed for a crash

	mu      sync.RWMutex // protects the following fields
	data    content
	undo    []undo    // unsynced changes, oldest first
	lost    *lostSync // not nil after a sync has failed; undo is then empty
	modTime time.Time // time of creation or of the last sync
}

// An undo can take back one unsynced change. There are three kinds: a write has n > 0 and no
// prev. A cut has prev, and off and n describe the bytes that were cut off. Growth has n = 0.
type undo struct {
	off, n int64
	size   int64    // the file's size before the change
	old    []byte   // the first of the n bytes before the change; the others were zeros
	prev   *content // the whole file before the change
}

// mergeAfter is how many changes of a file are stored separately, so that a crash can
// come between any two. After that, writes that follow each other are merged.
// Otherwise the log of a store that never syncs would take more memory than its bytes.
const mergeAfter = 4096

// readAt reads bytes from off up into p. It returns
// how many there are, and the size of the file.
func (n *inode) readAt(p []byte, off int64) (read int, size int64) {
	n.mu.RLock()
	defer n.mu.RUnlock()
	if off < n.data.size {
		read = n.data.readAt(p, off)
	}
	return read, n.data.size
}

// stat describes the file.
func (n *inode) stat() FileInfo {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return FileInfo{Size: n.data.size, ModTime: n.modTime}
}

// writeAt writes p at off. If limit is 0 or more and p would end after
// limit or after the end of the file, it writes nothing and returns false.
func (n *inode) writeAt(p []byte, off, limit int64) (ok bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	end := off + int64(len(p))
	if limit >= 0 && end > min(limit, n.data.size) {
		return false
	}
	if len(p) == 0 {
		return true
	}
	if n.lost != nil {
		n.lost.mark(off, end)
	} else {
		n.push(undo{off: off, n: int64(len(p)), size: n.data.size, old: n.data.before(off, end)})
	}
	n.data.writeAt(p, off)
	return true
}

// before returns a copy of the bytes from off to end, as far as there are any.
// It returns nil if they are zeros, which is usual where a log is written.
func (c *content) before(off, end int64) []byte {
	end = min(end, c.size)
	if off >= end || !c.hasPage(off, end) {
		return nil
	}
	old := make([]byte, end-off)
	c.readAt(old, off)
	for _, b := range old {
		if b != 0 {
			return old
		}
	}
	return nil
}

// push adds u to undo. If there are many changes and u is a
// write that continues the last one, push merges the two.
func (n *inode) push(u undo) {
	if len(n.undo) >= mergeAfter {
		last := &n.undo[len(n.undo)-1]
		plain := last.n > 0 && last.prev == nil && u.old == nil
		growth := last.size <= last.off == (u.size <= u.off)
		if plain && growth && u.off == last.off+last.n {
			last.n += u.n
			return
		}
	}
	n.undo = append(n.undo, u)
}

// resize changes the size. With keep, it does not make the file shorter.
func (n *inode) resize(size int64, keep bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	old := n.data.size
	if size == old || keep && size < old {
		return
	}
	switch {
	case n.lost != nil:
		n.lost.mark(size, old)
	case size > old:
		n.undo = append(n.undo, undo{off: old, size: old})
	default:
		prev := n.data.share()
		n.undo = append(n.undo, undo{off: size, n: old - size, size: old, prev: &prev})
	}
	n.data.resize(size)
}

// sync makes the file durable, and reports whether there was anything to do.
func (n *inode) sync() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.modTime = time.Now()
	if n.lost != nil {
		return n.lost.sync(&n.data)
	}
	dirty := len(n.undo) > 0
	clear(n.undo) // so that its memory can be freed
	n.undo = n.undo[:0]
	if cap(n.undo) > mergeAfter {
		n.undo = nil
	}
	return dirty
}

// durable returns the contents that the disk has for certain.
func (n *inode) durable() content {
	if n.lost != nil {
		return n.lost.disk.share()
	}
	return n.at(0)
}

// at returns the contents after the first k of the unsynced changes.
func (n *inode) at(k int) content {
	c := n.data.share()
	for i := len(n.undo) - 1; i >= k; i-- {
		n.undo[i].takeBack(&c, 0)
	}
	return c
}

// takeBack undoes the change in c. Of a write it leaves the first keep
// bytes, which may still have made the file longer: the size is then the
// end of these bytes, or the size before the write if that is larger.
func (u *undo) takeBack(c *content, keep int64) {
	if u.prev != nil {
		*c = u.prev.share()
		return
	}
	if keep < int64(len(u.old)) {
		c.writeAt(u.old[keep:], u.off+keep)
	}
	c.zero(u.off+max(keep, int64(len(u.old))), u.off+u.n)
	size := u.size
	if keep > 0 {
		size = max(size, u.off+keep)
	}
	c.resize(size)
}
