package cache

import (
	"unsafe"

	"github.com/shaledb/shale/internal/prefetch"
)

// Lookups of several blocks wait for main memory several times each, one after
// the other: for the slot, the block and the buffer. Prefetch and PrefetchBlock
// begin a part of a Get, so that the caller can do the same for other keys
// before it goes on. They change nothing.

// Prefetch begins to load where Get(k) looks first.
func (c *Cache) Prefetch(k Key) {
	h := k.hash()
	if t := c.shard(h).table.Load(); t != nil {
		prefetch.Line((*byte)(unsafe.Pointer(&t.slots[uint(h>>t.shift)&uint(len(t.slots)-1)])))
	}
}

// PrefetchBlock begins to load what Get(k) looks at next, some time after
// Prefetch(k).
func (c *Cache) PrefetchBlock(k Key) {
	h := k.hash()
	t := c.shard(h).table.Load()
	if t == nil {
		return
	}
	mask := uint(len(t.slots) - 1)
	i := uint(h>>t.shift) & mask
	for range 8 { // more is rare
		slot := &t.slots[i]
		file := slot.file.Load()
		if file == 0 {
			return
		}
		if slot.offset.Load() == k.Offset && file == k.File+1 {
			prefetch.Line((*byte)(unsafe.Pointer(slot.block.Load())))
			return
		}
		i = (i + 1) & mask
	}
}
