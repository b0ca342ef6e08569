package sstable

import (
	"unsafe"

	"github.com/shaledb/shale/internal/offheap"
)

// A hashList is a list of hashes that grows. A long one lies beside the heap: it
// lives for a table's making, has 8 bytes a key, and would let the heap grow by
// twice that.
type hashList struct {
	all  []uint64
	room []byte // that all lies in, from package offheap; nil: the heap
}

// nearHashes are as many as lie on the heap.
const nearHashes = 1024

func (l *hashList) add(h uint64) {
	if len(l.all) == cap(l.all) {
		l.grow()
	}
	l.all = append(l.all, h)
}

func (l *hashList) grow() {
	if l.all == nil {
		l.all = make([]uint64, 0, nearHashes)
		return
	}
	n := max(2*cap(l.all), 8*nearHashes)
	room := offheap.Alloc(8 * n)
	all := unsafe.Slice((*uint64)(unsafe.Pointer(unsafe.SliceData(room))), n)[:len(l.all)]
	copy(all, l.all)
	l.free()
	l.all, l.room = all, room
}

// free empties the list.
func (l *hashList) free() {
	if l.room != nil {
		offheap.Free(l.room)
	}
	*l = hashList{}
}
