// Package cache keeps data in memory that a store would otherwise read again. A
// Cache holds blocks of tables. FalsePositives holds keys of which it is known
// that a table does not have them, although the table's filter says maybe.
//
// # The block cache
//
// A Cache maps (file, offset) to a Block, a buffer that callers pin while they use it:
//
//	b := c.Get(k)              // or c.Peek(k), without a pin
//	if b == nil {
//		b = c.AllocAt(k, n)    // pinned
//		read(b.Bytes())
//		b = c.Insert(k, b)     // pinned; another reader's if that one came first
//	}
//	use(b.Bytes())
//	b.Release()
//
// It guarantees:
//
//   - The bytes of a pinned block are written by its owner only. Their
//     memory is used for something else only after the last Release.
//   - Get returns the bytes that were inserted under exactly that key.
//     It finds every block that is in the cache during the whole call.
//   - The cache takes at most its capacity, with overhead and unused
//     parts of its memory included. A pinned block that is evicted stays
//     in memory. Stats still counts it, but the capacity does not.
//   - A hit takes no lock and allocates nothing. It writes to no
//     shared memory but the block's own count of pins, and a mark
//     of the hit if that is not set. A Peek does not even pin.
//
// Buffers lie outside the Go heap (arena.go), because the heap would otherwise grow
// by as much again between two collections. Only the first MiB of a cache is on the
// heap, so a small store takes no memory outside it. Close gives the memory back,
// and the collector does so for caches that are no longer reachable. A pinned block
// keeps its cache reachable. A caller of Peek must keep the cache reachable itself.
//
// Cached bytes must not change, and file numbers must not be used twice, because
// a block can't be replaced. With the build tag invariants, free buffers are
// filled with a pattern, and a write to one panics when the buffer is used again.
//
// Eviction is SIEVE (see sieve.go). A block that would have another one evicted is not
// kept before it is asked for again (see door.go). The cache has no hit
// counters (the tables count hits), no expiry, and no guard against two readers that
// read the same missing block at the same time: the second Insert returns the block of
// the first. docs/decisions/0001-block-cache.md says why it is not a general cache.
//
// # The memory of false positives
//
// FalsePositives answers whether a table is known not to hold a key:
//
//	if filter.MayContain(hash) && !f.Has(table, key, hash) {
//		if !read(table, key) { // no version of it, at any sequence number
//			f.Remember(table, key, hash)
//		}
//	}
//
// It guarantees:
//
//   - Has returns true only if Remember was called with this table
//     and this key. It compares all bytes of the key. A lookup ends
//     when Has returns true, so a wrong answer would hide data.
//   - It takes at most the bytes that it was given, as the allocator counts them.
//   - Has takes no lock and allocates nothing.
//
// It may forget an entry at any time. Tables never change, so entries do not expire.
//
// All functions and methods may be called concurrently.
package cache

import (
	"unsafe"

	"github.com/shaledb/shale/internal/offheap"
)

// A Key says where a block comes from: the number
// of a file, and the block's offset in it in bytes.
type Key struct {
	File   uint64
	Offset uint64
}

const (
	// maxShards bounds the number of shards, each with a lock for its inserts. Hits take
	// no lock, and an insert comes after a read from a file, so few locks are enough.
	maxShards = 16

	// minShardBytes is the smallest capacity of a shard in a cache of
	// several. A shard with only a few blocks would evict by chance.
	minShardBytes = 1 << 20
)

// blockOverhead is the number of bytes charged for a block besides its buffer:
// the Block, and its share of a shard's table, which is between 3/8 and 3/4 full.
const blockOverhead = blockBytes + 2*int64(unsafe.Sizeof(slot{}))

// A Cache is a set of blocks with a limit in bytes.
type Cache struct {
	shards []shard // the number is a power of two; constant
	mask   uint64  // len(shards) - 1
}

// New returns a cache of capacity bytes. If capacity is 0 or less, it keeps
// nothing: Insert returns its argument, Get returns nil, and Alloc works as usual.
func New(capacity int64) *Cache {
	n := 1
	for n < maxShards && int64(2*n)*minShardBytes <= capacity {
		n *= 2
	}
	c := &Cache{shards: make([]shard, n), mask: uint64(n - 1)}
	m := new(mappings)
	for i := range c.shards {
		s := &c.shards[i]
		s.capacity = max(capacity, 0) / int64(n)
		s.arena.chunkBytes = chunkBytesFor(s.capacity) // before the door takes its part: capacities are round numbers
		if s.capacity >= minShardBytes {
			s.capacity -= passingBytes
		}
		s.looseMax = looseBytes / int64(n)
		s.mapped = m
	}
	if capacity > looseBytes {
		offheap.Unreachable(unsafe.Pointer(&c.shards[0]), m.free)
	}
	return c
}

// Close empties the cache for good. Lookups may be in
// progress: a pinned block stays valid until it is released.
func (c *Cache) Close() {
	for i := range c.shards {
		c.shards[i].close()
	}
}

// Get returns the block at k, pinned, or nil.
func (c *Cache) Get(k Key) *Block {
	h := k.hash()
	return c.shard(h).get(h, k)
}

// Insert puts b into the cache at k and returns it, pinned as it was. If the cache has a
// block at k already, because another reader was faster, Insert releases b and returns that
// block, pinned. A block that is too large for the cache, or for which another one would have
// to go although nobody has asked for it before, is returned without being kept.
//
// Requires: b is from AllocAt with the same key, or from Alloc,
// and was not inserted before. Nobody writes to it any more.
func (c *Cache) Insert(k Key, b *Block) *Block {
	h := k.hash()
	return c.shard(h).insert(h, k, b)
}

// EvictFile evicts the blocks of a file that is about to be deleted.
// It takes the lock of each shard, and visits only the blocks of that
// file. A reader that is about to insert a block of the file may still
// do so. That block is evicted later, like any other that nobody uses.
func (c *Cache) EvictFile(file uint64) {
	for i := range c.shards {
		c.shards[i].evictFile(file)
	}
}

// Stats says how much memory a cache takes.
type Stats struct {
	Bytes  int64 // memory taken, with overhead and unused parts, also for evicted blocks that are pinned
	Blocks int64 // number of these blocks
}

// Stats adds up the numbers of the shards. They
// are read one after the other, not at one moment.
func (c *Cache) Stats() Stats {
	var s Stats
	for i := range c.shards {
		blocks := c.shards[i].heldBlocks.Load()
		s.Bytes += c.shards[i].heldChunks.Load() + c.shards[i].heldLoose.Load() + blocks*blockOverhead
		s.Blocks += blocks
	}
	return s
}

// shard returns the shard for hash h. It uses other
// bits than the shard's table does for the place in it.
func (c *Cache) shard(h uint64) *shard { return &c.shards[(h>>1)&c.mask] }
