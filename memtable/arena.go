package memtable

import (
	"cmp"
	"encoding/binary"
	"sync"
)

// Keys and values lie in chunks that are filled from front to back and never
// move, so a slice of one stays good as long as somebody holds it:
//
//	+-----------+---------------------+-------------+
//	| key       | value length        | value       |
//	| k bytes   | 4 bytes, little-end.| v bytes     |
//	+-----------+---------------------+-------------+
//	^ address                          k is in the entry
//
// An address is chunk<<chunkShift | offset in the chunk. An item larger than
// ownChunk gets a chunk of exactly its size, at offset 0, while the chunk
// being filled goes on being filled; so no chunk loses more than a quarter.
const (
	chunkShift = 20
	chunkSize  = 1 << chunkShift
	ownChunk   = chunkSize / 4
	firstChunk = 32 << 10 // chunks double from here on: a store of a few keys stays small
	valueLen   = 4
)

// chunks resolves addresses. The slice only ever grows at its end, so a copy
// of it may be read without a lock while the writer appends: the copy's part
// is never written to again.
type chunks [][]byte

// key returns the k bytes at addr.
func (c chunks) key(addr uint64, k int) []byte {
	i := int(addr & (chunkSize - 1))
	return c[addr>>chunkShift][i : i+k : i+k]
}

// valueSize returns the length of the value of the item at addr, whose key
// has k bytes.
func (c chunks) valueSize(addr uint64, k int) uint32 {
	return binary.LittleEndian.Uint32(c[addr>>chunkShift][int(addr&(chunkSize-1))+k:])
}

// item returns key and value at addr, their lengths being known.
func (c chunks) item(addr uint64, k int, size uint32) (key, value []byte) {
	chunk := c[addr>>chunkShift]
	i := int(addr & (chunkSize - 1))
	j := i + k + valueLen
	end := j + int(size)
	return chunk[i : i+k : i+k], chunk[j:end:end]
}

// An arena is the memory of a memtable. One goroutine adds to it. It copies an
// item before any entry refers to it, so that takes no lock; only the list of
// chunks, which readers look addresses up in, changes under mu.
type arena struct {
	mu      sync.Locker // of the memtable
	chunks  chunks      // written under mu
	current uint64      // index of the chunk being filled
	free    []byte      // its unused end
	used    int64       // bytes of all items, without what is unused
	lost    int64       // unused ends of chunks that will not be filled any more
	first   int         // size of the first chunk; 0: firstChunk
	// piece gives the memory of a full chunk or of a large item; nil: the heap.
	piece func(n int) []byte
}

// add copies an item and returns its address.
func (a *arena) add(key, value []byte) uint64 {
	n := len(key) + valueLen + len(value)
	a.used += int64(n)
	var addr uint64
	var dst []byte
	if n > ownChunk {
		dst = a.alloc(n)
		addr = uint64(len(a.chunks)) << chunkShift
		a.append(dst)
	} else {
		if n > len(a.free) {
			a.grow(n)
		}
		addr = a.current<<chunkShift | uint64(len(a.chunks[a.current])-len(a.free))
		dst, a.free = a.free[:n], a.free[n:]
	}
	copy(dst, key)
	binary.LittleEndian.PutUint32(dst[len(key):], uint32(len(value)))
	copy(dst[len(key)+valueLen:], value)
	return addr
}

// grow starts a new chunk with room for n bytes, twice as large as the last
// one. Requires: n <= ownChunk.
func (a *arena) grow(n int) {
	size := cmp.Or(a.first, firstChunk)
	if a.chunks != nil {
		size = min(2*len(a.chunks[a.current]), chunkSize)
	}
	for size < n {
		size *= 2
	}
	a.lost += int64(len(a.free))
	a.current = uint64(len(a.chunks))
	a.free = a.alloc(size)
	a.append(a.free)
}

// append adds a chunk to the list.
func (a *arena) append(chunk []byte) {
	a.mu.Lock()
	a.chunks = append(a.chunks, chunk)
	a.mu.Unlock()
}

// alloc returns n bytes of any contents. A small memtable is in the heap wholly.
func (a *arena) alloc(n int) []byte {
	if a.piece == nil || n <= chunkSize/2 {
		return make([]byte, n)
	}
	return a.piece(n)
}
