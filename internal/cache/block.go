package cache

import (
	"sync/atomic"
	"unsafe"

	"github.com/shaledb/shale/internal/offheap"
)

// A Block is a buffer with a count of pins. As long as a
// block has a pin, its memory is not used for anything else.
//
// Blocks are used again, and lookups take no lock. So a reader may
// hold a pointer to a block that was meanwhile evicted, released
// and given out for other bytes. Three rules make that harmless:
//
//  1. refs counts the pins. The cache has one pin on each block that is in it. When the
//     count falls to 0, the block becomes free: the constant freed is added, which makes
//     the count negative. It stays negative whatever pins late readers add and remove.
//  2. published is set once in each life of a block: by Insert, after key and shard.
//     It is cleared when the block becomes free. So a reader that has a pin and sees
//     published may read key and shard, and nobody changes them while the pin is held.
//  3. buf is written by its owner before Insert, and by nobody after it.
//
// A reader first pins the block. Then it checks published, key and shard, and releases
// the block if it is not the one it wanted. The key alone is not enough: the pools
// serve all caches of the process, and two stores may have tables with the same number.
//
// The memory of the buffer is a piece of a chunk (see arena.go), or
// it is loose: from the Go heap, or mapped for this block alone.
type Block struct {
	refs      atomic.Int32
	published atomic.Bool
	kept      bool  // it is in the cache; guarded by shard.mu
	hole      bool  // a free piece, in the arena's bins; guarded by shard.mu
	passing   bool  // the door has refused it, so Insert does not put it into the table; set by alloc
	class     int16 // for loose blocks: a class of the pools, or noClass or mappedClass

	off   uint32 // for pieces: offset in the chunk
	key   Key
	buf   []byte
	shard *shard // the shard that it is in, or that owns its memory; keeps that reachable

	// Guarded by shard.mu. They are used while the block is in
	// the cache. newer and older also link the holes of a bin.
	newer, older       *Block // in the order of insertion
	filePrev, fileNext *Block // blocks of the same file in the same shard

	// Guarded by shard.mu.
	slot        *slot  // its slot in the table, while the block is in the cache
	chunk       *chunk // nil: a loose block
	left, right *Block // the neighbours in the chunk
}

// freed is added to the pins of a block that becomes free.
// It leaves room for 1<<30 late readers at the same time.
const freed = -1 << 30

// blockBytes is the size of a Block without its buffer.
const blockBytes = int64(unsafe.Sizeof(Block{}))

// Bytes returns the block's buffer, with the length that was asked for. The
// slice is valid until Release. The caller may write to it only before Insert.
func (b *Block) Bytes() []byte { return b.buf }

// Retain adds a pin. Requires: the caller has a pin.
func (b *Block) Retain() { b.refs.Add(1) }

// Release removes a pin of the caller, which must not use the block after that.
func (b *Block) Release() {
	if n := b.refs.Add(-1); n <= 0 && b.unpinned(n) {
		b.free()
	}
}

// unpinned marks the block as free if its count is still 0, and reports whether it did.
// n is the count after a pin was removed. If the count is not 0 any more, a reader that
// found the block in the table has pinned it since, and that reader's Release frees it.
func (b *Block) unpinned(n int32) bool {
	if n == 0 && b.refs.CompareAndSwap(0, freed) {
		return true
	}
	if n < freed {
		panic("cache: Release of a block that is not pinned")
	}
	return false
}

// free gives the buffer back. Requires: refs is freed, except
// for pins of late readers, and the shard's mu is not held.
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

// leave notes that a loose block that was in the cache is free.
func (b *Block) leave() {
	if b.published.Load() {
		b.published.Store(false)
		b.shard.heldLoose.Add(-int64(cap(b.buf)))
		b.shard.heldBlocks.Add(-1)
	}
}

// freeLoose gives the buffer of a loose block back.
func (b *Block) freeLoose() {
	s := b.shard
	b.leave()
	if b.class == mappedClass {
		s.mapped.remove(b.buf)
		offheap.Free(b.buf[:cap(b.buf)])
		return
	}
	b.shard, b.passing = nil, false
	poison(b.buf)
	if b.class != noClass {
		pools[b.class].Put(b)
	}
}

// pin adds a pin if b holds the bytes at k of s's cache, and reports whether it does.
func (b *Block) pin(s *shard, k Key) bool {
	if b.refs.Add(1) > 0 && b.published.Load() && b.key == k && b.shard == s {
		return true
	}
	b.Release()
	return false
}

// charge returns how many bytes of the capacity the block takes. A piece
// takes only the overhead, because its chunk is charged as a whole.
func (b *Block) charge() int64 {
	if b.chunk != nil {
		return blockOverhead
	}
	return int64(cap(b.buf)) + blockOverhead
}
