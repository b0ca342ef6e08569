package vfs

import (
	"sync"
	"time"
)

// An inode is a file of a Mem, whatever its names. data is what readers see;
// what the disk has for certain is data with undo taken back, newest first.
// So a file costs no more than its bytes once it is synced, and a sync costs
// nothing.
type inode struct {
	id uint64 // by order of creation; seeds what a crash does to the file

	mu      sync.RWMutex // guards what follows
	data    content
	undo    []undo
	lost    *lostSync // not nil once a sync failed; undo is empty from then on
	modTime time.Time // of creation and of the last sync
}

// An undo takes back one unsynced change. A write has n > 0 and no prev; a cut
// has prev, and off and n are the bytes that went; growth has n = 0.
type undo struct {
	off, n int64
	size   int64    // the file's, before
	old    []byte   // the first of the n bytes, before; the rest were zeros
	prev   *content // all of the file, before
}

// mergeAfter is how many changes are kept apart, so that a crash can come
// between any two. Behind them, writes that follow each other become one, or
// the log of a store that never syncs would take more memory than its bytes.
const mergeAfter = 4096

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

// writeAt writes p at off. With a limit of 0 or more, bytes behind the limit
// or the file's size are refused: ok is false then.
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

// before returns a copy of the bytes from off to end as far as there are any,
// or nil if they are zeros, as they are where a log is written.
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

// push remembers u, as a part of the last change where that is allowed.
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

// resize changes the size; keep leaves a longer file alone.
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

// sync makes the file durable and reports whether there was anything to do.
func (n *inode) sync() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.modTime = time.Now()
	if n.lost != nil {
		return n.lost.sync(&n.data)
	}
	dirty := len(n.undo) > 0
	clear(n.undo) // lets go of what they hold
	n.undo = n.undo[:0]
	if cap(n.undo) > mergeAfter {
		n.undo = nil
	}
	return dirty
}

// durable returns the file as the disk has it for certain.
func (n *inode) durable() content {
	if n.lost != nil {
		return n.lost.disk.share()
	}
	return n.at(0)
}

// at returns the file as it was after the first k of the unsynced changes.
func (n *inode) at(k int) content {
	c := n.data.share()
	for i := len(n.undo) - 1; i >= k; i-- {
		n.undo[i].takeBack(&c, 0)
	}
	return c
}

// takeBack undoes the change in c but for the first keep bytes of a write.
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
