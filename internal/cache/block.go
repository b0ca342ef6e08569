package cache

import "sync/atomic"

// A Block is a buffer with a count of its pins.
//
// Blocks are pooled with their buffers, and lookups take no lock, so a reader
// may hold a pointer to a block that has been evicted, released and handed out
// again for other bytes. These rules make that harmless:
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
type Block struct {
	refs      atomic.Int32
	visited   atomic.Uint32 // by a hit since the hand came by; see sieve.go
	published atomic.Bool
	class     int32 // of the pool; noClass for what is too large

	key   Key
	buf   []byte
	shard *shard // that it was inserted into

	// Guarded by shard.mu, used while the block is in the cache.
	newer, older       *Block // in the order of insertion
	filePrev, fileNext *Block // blocks of one file in one shard

	_ [32]byte // to whole cache lines: neighbours are pinned by other readers
}

// freed is added to the pins of a free block. No more than 1<<30 readers can be
// late at the same time.
const freed = -1 << 30

// Bytes returns the block's buffer, as long as was asked for. It is valid until
// Release, and may be written to before Insert only.
func (b *Block) Bytes() []byte { return b.buf }

// Retain adds a pin. Requires: the caller has one.
func (b *Block) Retain() { b.refs.Add(1) }

// Release takes off one pin. The block must not be used after it.
func (b *Block) Release() {
	if n := b.refs.Add(-1); n <= 0 {
		b.unpinned(n)
	}
}

// unpinned frees the block if its count is still 0: a reader that found the
// block in the table may have pinned it since, and is then the last.
func (b *Block) unpinned(n int32) {
	if n == 0 && b.refs.CompareAndSwap(0, freed) {
		b.free()
	} else if n < freed {
		panic("cache: Release of a block that is not pinned")
	}
}

// free gives the buffer back. Requires: refs is freed, but for late readers.
func (b *Block) free() {
	if b.published.Load() {
		b.published.Store(false)
		b.shard.heldBytes.Add(-b.charge())
		b.shard.heldBlocks.Add(-1)
		b.shard = nil
	}
	putBuffer(b)
}

// pin adds a pin if b holds the bytes at k of s's cache, and tells whether it does.
func (b *Block) pin(s *shard, k Key) bool {
	if b.refs.Add(1) > 0 && b.published.Load() && b.key == k && b.shard == s {
		if b.visited.Load() == 0 {
			b.visited.Store(1) // only if it was not: hot blocks stay shared between cores
		}
		return true
	}
	b.Release()
	return false
}

// charge is what b takes of the capacity.
func (b *Block) charge() int64 { return int64(cap(b.buf)) + blockOverhead }
