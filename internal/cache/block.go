package cache

import (
	"sync/atomic"
	"unsafe"

	"github.com/shaledb/shale/internal/offheap"
)

// A Block is a buffer with a count of its pins.
//
// Blocks are used again, and lookups take no lock, so a reader may hold a
// pointer to a block that has been evicted, released and handed out again for
// other bytes. These rules make that harmless:
//
//  1. refs counts the pins, of which the cache has one. A block with none is
//     free: freed is added to its count, which then is negative, whatever
//     readers that came too late add and take off again.
//  2. published is set once a life, by Insert, after key and shard; it is
//     cleared when the block becomes free. So who has a pin and sees published
//     may read key and shard, and no one changes them as long as the pin is held.
//  3. buf is written by its owner before Insert, and by nobody after it.
//
// A reader pins first, then looks at published, key and shard, and lets go if
// that is not the block it wanted. The key alone would not do: pools serve all
// caches of the process, and two stores have tables of the same number.
//
// The buffer is a piece of a chunk (see arena.go), or a loose one: of the Go
// heap, or a mapping of its own.
type Block struct {
	refs      atomic.Int32
	published atomic.Bool
	kept      bool  // in the cache; guarded by shard.mu
	hole      bool  // a free piece, in the arena's bins; guarded by shard.mu
	class     int16 // of the pool, for loose blocks; noClass, mappedClass

	off   uint32 // of a piece in its chunk
	key   Key
	buf   []byte
	shard *shard // that it was inserted into, or that its memory is of; keeps that reachable

	// Guarded by shard.mu, used while the block is in the cache; newer and older
	// also for a hole's bin.
	newer, older       *Block // in the order of insertion
	filePrev, fileNext *Block // blocks of one file in one shard

	// Guarded by shard.mu.
	slot        *slot  // of the table, while the block is in the cache
	chunk       *chunk // nil: a loose block
	left, right *Block // the neighbours in the chunk
}

// freed is added to the pins of a free block. No more than 1<<30 readers can be
// late at the same time.
const freed = -1 << 30

// blockBytes is what a block takes beside its buffer.
const blockBytes = int64(unsafe.Sizeof(Block{}))

// Bytes returns the block's buffer, as long as was asked for. It is valid until
// Release, and may be written to before Insert only.
func (b *Block) Bytes() []byte { return b.buf }

// Retain adds a pin. Requires: the caller has one.
func (b *Block) Retain() { b.refs.Add(1) }

// Release takes off one pin. The block must not be used after it.
func (b *Block) Release() {
	if n := b.refs.Add(-1); n <= 0 && b.unpinned(n) {
		b.free()
	}
}

// unpinned takes the block for its next life if its count is still 0, and tells
// whether it did: a reader that found the block in the table may have pinned it
// since, and is then the last.
func (b *Block) unpinned(n int32) bool {
	if n == 0 && b.refs.CompareAndSwap(0, freed) {
		return true
	}
	if n < freed {
		panic("cache: Release of a block that is not pinned")
	}
	return false
}

// free gives the buffer back. Requires: refs is freed, but for late readers;
// the shard's lock is not held.
func (b *Block) free() {
	if b.chunk == nil {
		b.freeLoose()
		return
	}
	s := b.shard
	s.mu.Lock()
	defer s.mu.Unlock()
	s.freePiece(b)
	s.trim()
}

// freeLoose frees a block that is not of a chunk.
func (b *Block) freeLoose() {
	s := b.shard
	if b.published.Load() {
		b.published.Store(false)
		s.heldLoose.Add(-int64(cap(b.buf)))
		s.heldBlocks.Add(-1)
	}
	if b.class == mappedClass {
		s.mapped.remove(b.buf)
		offheap.Free(b.buf[:cap(b.buf)])
		return
	}
	b.shard = nil
	poison(b.buf)
	if b.class != noClass {
		pools[b.class].Put(b)
	}
}

// pin adds a pin if b holds the bytes at k of s's cache, and tells whether it does.
func (b *Block) pin(s *shard, k Key) bool {
	if b.refs.Add(1) > 0 && b.published.Load() && b.key == k && b.shard == s {
		return true
	}
	b.Release()
	return false
}

// charge is what b takes of the capacity by itself: a piece's chunk is charged
// as a whole.
func (b *Block) charge() int64 {
	if b.chunk != nil {
		return blockOverhead
	}
	return int64(cap(b.buf)) + blockOverhead
}
