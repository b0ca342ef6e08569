package sstable

import (
	"unsafe"

	"github.com/shaledb/shale/internal/offheap"
)

// A hashList is a list of hashes that grows. A long list is not on the Go heap. It lives only
// while a table is made and has 8 bytes for each key. On the heap it would make the collector
// let the heap grow by twice that.
type hashList struct {
	all  []uint64
	room []byte // the memory of all, from package offheap; nil: all is on the heap
}

// nearHashes is the number of hashes up to which a list is on the heap.
const nearHashes = 1024

func (l *hashList) add(h uint64) {
	if len(l.all) == cap(l.all) {
		l.grow()
	}
	l.all = append(l.all, h)
}

// grow makes room for more hashes. It doubles the list, and moves it off the heap when it
// leaves the first size.
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

// free empties the list and frees its memory. Nobody may use all afterwards.
func (l *hashList) free() {
	if l.room != nil {
		offheap.Free(l.room)
	}
	*l = hashList{}
}
