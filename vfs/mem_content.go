package vfs

import "sync/atomic"

// pageSize is the unit in bytes in which copies of a file share memory.
const pageSize = 4096

// A content holds the bytes of a file in memory, as pages in a table. A
// copy shares the table and the pages until one of the two is written
// (copy-on-write). So a copy takes the same time for a file of any size.
//
// Invariants:
//
//  1. A content changes a page in place only if the page's slot has the content's owner.
//     share gives both sides a new owner, so that neither may change the existing pages.
//  2. The table is changed in place only while shared is false.
//  3. A nil page reads as zeros. So do a slot after the table's end and bytes after size.
type content struct {
	size   int64
	slots  []slot
	owner  uint64
	shared bool
}

// A slot is an entry of a content's table.
type slot struct {
	page  *[pageSize]byte
	owner uint64
}

// owners is the last owner given out. No owner is given out twice.
var owners atomic.Uint64

// share returns a copy of c. Both may be read and
// written afterwards, also by different goroutines.
func (c *content) share() content {
	c.shared = true
	c.owner = owners.Add(1)
	return content{size: c.size, slots: c.slots, owner: owners.Add(1), shared: true}
}

// readAt reads bytes from off up into p, and returns how
// many there are. Requires: off is not above the size.
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

// writeAt writes p at off. It extends the file if needed.
func (c *content) writeAt(p []byte, off int64) {
	for done := 0; done < len(p); {
		i, at := int((off+int64(done))/pageSize), int((off+int64(done))%pageSize)
		done += copy(c.page(i)[at:], p[done:])
	}
	c.size = max(c.size, off+int64(len(p)))
}

// zero sets the bytes from off to end to zero. It does not extend the file or its table.
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
				clear(c.slots[pages:]) // so that the pages can be freed
			}
			c.slots = c.slots[:pages]
		}
	}
	c.size = size
}

// page returns page i for writing. It copies the
// table and the page first, if they are shared.
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

// hasPage reports whether any byte from off to end is in a page. If not, they are zeros.
func (c *content) hasPage(off, end int64) bool {
	for i := off / pageSize; i <= (end-1)/pageSize && i < int64(len(c.slots)); i++ {
		if c.slots[i].page != nil {
			return true
		}
	}
	return false
}

// copyFrom copies the bytes from off to end from src. After the end of src it copies zeros.
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
