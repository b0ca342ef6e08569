package memtable

import (
	"cmp"
	"encoding/binary"
	"sync"
)

// An arena stores keys and values in chunks, which are filled from front to back and never
// move. So a slice of one stays valid as long as the memtable is pinned. An item looks like
// this:
//
//	+-----------+---------------------+-------------+
//	| key       | value length        | value       |
//	| k bytes   | 4 bytes, little-end.| v bytes     |
//	+-----------+---------------------+-------------+
//	^ address                          k is in the entry
//
// An address is chunk<<chunkShift | offset in the chunk. An item larger than ownChunk gets a
// chunk of exactly its size, at offset 0. The chunk that is being filled stays the current
// one. So no chunk has more than a quarter that is never filled.
const (
	chunkShift = 21
	chunkSize  = 1 << chunkShift
	ownChunk   = chunkSize / 4
	firstChunk = 32 << 10 // each chunk is twice as large as the one before, so a store of a few keys stays small
	valueLen   = 4
)

// A chunks resolves addresses. The slice only grows at its end. So a reader may use a copy of
// it without a lock while the writer appends: the elements of the copy are never written
// again.
type chunks [][]byte

// key returns the key of k bytes at addr.
func (c chunks) key(addr uint64, k int) []byte {
	i := int(addr & (chunkSize - 1))
	return c[addr>>chunkShift][i : i+k : i+k]
}

// valueSize returns the length of the value of the item at addr. k is the length of its key.
func (c chunks) valueSize(addr uint64, k int) uint32 {
	return binary.LittleEndian.Uint32(c[addr>>chunkShift][int(addr&(chunkSize-1))+k:])
}

// item returns the key and the value of the item at addr. k and size are their lengths.
func (c chunks) item(addr uint64, k int, size uint32) (key, value []byte) {
	chunk := c[addr>>chunkShift]
	i := int(addr & (chunkSize - 1))
	j := i + k + valueLen
	end := j + int(size)
	return chunk[i : i+k : i+k], chunk[j:end:end]
}

// An arena is the memory of a memtable for keys and values. Only the writer adds to it. It
// copies an item before any entry refers to it, so the copy needs no lock. Only the list of
// chunks changes under mu, because readers resolve addresses in it.
type arena struct {
	mu      sync.Locker // of the memtable
	chunks  chunks      // written under mu
	current uint64      // index of the chunk that is being filled
	free    []byte      // the unused end of that chunk
	used    int64       // bytes of all items
	lost    int64       // bytes at the ends of earlier chunks that stay unused
	first   int         // bytes of the first chunk; 0: firstChunk
	// piece allocates the memory of a full chunk or of a large item, off the Go heap. nil:
	// all memory is on the heap.
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

// grow starts a new chunk with room for n bytes, which is twice as large as the last one.
// Requires: n <= ownChunk.
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

// alloc returns n bytes with any content. The chunks of a small memtable are all on the heap.
func (a *arena) alloc(n int) []byte {
	if a.piece == nil || n <= chunkSize/2 {
		return make([]byte, n)
	}
	return a.piece(n)
}
