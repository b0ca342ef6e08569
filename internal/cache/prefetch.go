package cache

import (
	"unsafe"

	"github.com/shaledb/shale/internal/prefetch"
)

// A lookup waits for main memory several times, one after the other: for
// the slot, the block and the buffer. Prefetch and PrefetchBlock begin
// one of these loads. A caller that looks up several keys begins the load
// for all keys before it goes on with the first. They change nothing.

// Prefetch begins to load the slot where Get(k) looks first.
func (c *Cache) Prefetch(k Key) {
	h := k.hash()
	if t := c.shard(h).table.Load(); t != nil {
		prefetch.Line((*byte)(unsafe.Pointer(&t.slots[uint(h>>t.shift)&uint(len(t.slots)-1)])))
	}
}

// PrefetchBlock begins to load the Block that Get(k) looks
// at next. It is called some time after Prefetch(k).
func (c *Cache) PrefetchBlock(k Key) {
	h := k.hash()
	t := c.shard(h).table.Load()
	if t == nil {
		return
	}
	mask := uint(len(t.slots) - 1)
	i := uint(h>>t.shift) & mask
	for range 8 { // a longer search is rare
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
