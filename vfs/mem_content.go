package vfs

import "sync/atomic"

// pageSize is the unit in which copies of a file share memory.
const pageSize = 4096

// A content is the bytes of a file in memory: pages in a table, which copies
// share until one of them is written (copy-on-write). A copy costs the same
// for a file of any size.
//
// Invariants:
//  1. A page is written in place only by the content whose owner its slot
//     names; share gives both sides a new owner, so that neither has any page.
//  2. The table is changed in place only while shared is false.
//  3. A nil page and a slot behind the table's end are zeros; bytes behind
//     size are zeros.
type content struct {
	size   int64
	slots  []slot
	owner  uint64
	shared bool
}

type slot struct {
	page  *[pageSize]byte
	owner uint64
}

// owners makes owners, never the same twice.
var owners atomic.Uint64

// share returns a copy of c. Both may be read and written from then on, by
// different goroutines too.
func (c *content) share() content {
	c.shared = true
	c.owner = owners.Add(1)
	return content{size: c.size, slots: c.slots, owner: owners.Add(1), shared: true}
}

// readAt fills p from off, which must lie within the size, and returns the
// number of bytes that there are.
func (c *content) readAt(p []byte, off int64) int {
	if left := c.size - off; int64(len(p)) > left {
		p = p[:left]
	}
	for done := 0; done < len(p); {
		i, at := int((off+int64(done))/pageSize), int((off+int64(done))%pageSize)
		part := p[done:min(len(p), done+pageSize-at)]
		if i < len(c.slots) && c.slots[i].page != nil {
			copy(part, c.slots[i].page[at:])
		} else {
			clear(part)
		}
		done += len(part)
	}
	return len(p)
}

// writeAt puts p at off and grows the size as needed.
func (c *content) writeAt(p []byte, off int64) {
	for done := 0; done < len(p); {
		i, at := int((off+int64(done))/pageSize), int((off+int64(done))%pageSize)
		done += copy(c.page(i)[at:], p[done:])
	}
	c.size = max(c.size, off+int64(len(p)))
}

// zero makes the bytes from off to end zeros without growing anything.
func (c *content) zero(off, end int64) {
	end = min(end, int64(len(c.slots))*pageSize)
	for off < end {
		i, at := int(off/pageSize), int(off%pageSize)
		n := min(end-off, int64(pageSize-at))
		if c.slots[i].page != nil {
			clear(c.page(i)[at : at+int(n)])
		}
		off += n
	}
}

// resize changes the size. New bytes are zeros.
func (c *content) resize(size int64) {
	if size < c.size {
		pages := int((size + pageSize - 1) / pageSize)
		c.zero(size, int64(pages)*pageSize)
		if pages < len(c.slots) {
			if !c.shared {
				clear(c.slots[pages:]) // lets the pages go
			}
			c.slots = c.slots[:pages]
		}
	}
	c.size = size
}

// page returns page i for writing.
func (c *content) page(i int) *[pageSize]byte {
	if c.shared {
		c.slots = append(make([]slot, 0, len(c.slots)+1), c.slots...)
		c.shared = false
	}
	for len(c.slots) <= i {
		c.slots = append(c.slots, slot{})
	}
	s := &c.slots[i]
	if s.page == nil {
		*s = slot{new([pageSize]byte), c.owner}
	} else if s.owner != c.owner {
		own := *s.page
		*s = slot{&own, c.owner}
	}
	return s.page
}

// hasPage reports whether any of the bytes from off to end are in a page.
func (c *content) hasPage(off, end int64) bool {
	for i := off / pageSize; i <= (end-1)/pageSize && i < int64(len(c.slots)); i++ {
		if c.slots[i].page != nil {
			return true
		}
	}
	return false
}

// copyFrom makes the bytes from off to end those of src, which counts as
// zeros behind its size.
func (c *content) copyFrom(src *content, off, end int64) {
	var buf [sectorSize]byte
	for off < end {
		part := buf[:min(end-off, sectorSize)]
		n := 0
		if off < src.size {
			n = src.readAt(part, off)
		}
		clear(part[n:])
		c.writeAt(part, off)
		off += int64(len(part))
	}
}
