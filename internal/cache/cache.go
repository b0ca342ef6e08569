// Package cache keeps in memory what a store would otherwise read again: the
// blocks of its tables (Cache), and which keys a table was proven not to hold
// although its filter said maybe (FalsePositives).
//
// # The block cache
//
// A Cache maps (file, offset) to a Block, a buffer that callers pin while they
// look at it:
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
// It guarantees that
//
//   - a pinned block's bytes are not touched by anybody but its owner, and are
//     used for something else only after the last Release;
//   - Get returns the bytes that were inserted under exactly that key, and finds
//     a block that is in the cache during the whole call;
//   - what it takes is at most the capacity, overhead and unused parts of its
//     memory included. Blocks that are pinned stay in memory when they are
//     evicted: Stats counts them too, the capacity does not;
//   - a hit takes no lock, allocates nothing and writes to no shared memory but
//     the block's own count of pins, and a Peek not even there.
//
// Buffers lie beside the Go heap (arena.go), which would otherwise grow by as
// much again between collections, but for the first MiB of a cache: small stores
// take none of it. Close gives it back, and so does the collector for caches that
// were abandoned. A pinned block keeps its cache reachable; who Peeks has to.
//
// What is cached must be immutable, and file numbers must not be used twice:
// there is no way to replace a block. With the build tag invariants, free
// buffers are poisoned, and a write to one panics when it is used again.
//
// Eviction is SIEVE (see sieve.go). It leaves out: admission control, hit
// counters (the tables count), time, and a guard against two readers who read
// the same missing block at once: the second Insert gets the first one's block.
// Why it is not a general cache: docs/decisions/0001-block-cache.md.
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
// It guarantees that
//
//   - Has says yes only of a table and a key, all bytes compared, of which
//     Remember was told: a yes ends a lookup, so a wrong one would lose data;
//   - it takes at most the bytes that it was given, its sets included, as the
//     allocator counts them;
//   - Has takes no lock and allocates nothing.
//
// It may forget at any time. Tables are immutable, so nothing expires.
//
// Everything here is safe for concurrent use.
package cache

import (
	"runtime"
	"unsafe"
)

// A Key is the place of a block: a file's number and an offset in it.
type Key struct {
	File   uint64
	Offset uint64
}

const (
	// maxShards bounds the number of locks that inserts are spread over. Hits
	// take none, and an insert comes after a read from a file, so few will do.
	maxShards = 16

	// minShardBytes is the capacity that a shard should have at least, because a
	// shard with few blocks evicts by chance rather than by merit.
	minShardBytes = 1 << 20
)

// blockOverhead is charged for a block beside its buffer: the Block itself and
// its share of a shard's table, which is between 3/8 and 3/4 full.
const blockOverhead = blockBytes + 2*int64(unsafe.Sizeof(slot{}))

// A Cache is a set of blocks, bounded in bytes.
type Cache struct {
	shards []shard // a power of two; constant
	mask   uint64  // len(shards) - 1
}

// New returns a cache of capacity bytes. With 0 or less it keeps nothing:
// Insert returns its argument, Get nil, and Alloc works as always.
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
		s.looseMax = looseBytes / int64(n)
		s.arena.chunkBytes = chunkBytesFor(s.capacity)
		s.mapped = m
	}
	if capacity > looseBytes {
		runtime.AddCleanup(&c.shards[0], (*mappings).free, m)
	}
	return c
}

// Close empties the cache, for good. Lookups may be under way: what is pinned
// stays until it is released.
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

// Insert puts b into the cache at k and returns it, pinned as it was. If there
// is a block at k already, because another reader was faster, then Insert
// releases b and returns that one, pinned. A block that is too large for the
// cache is returned without being kept.
//
// Requires: b is from AllocAt of the same key, or from Alloc; it was not inserted before, and is not written to
// any more.
func (c *Cache) Insert(k Key, b *Block) *Block {
	h := k.hash()
	return c.shard(h).insert(h, k, b)
}

// EvictFile forgets the blocks of a file that is being deleted. It costs one
// lock a shard and then only the blocks of that file. A reader that is about to
// insert a block of the file may still do so; that block leaves like any other
// that nobody asks for.
func (c *Cache) EvictFile(file uint64) {
	for i := range c.shards {
		c.shards[i].evictFile(file)
	}
}

// Stats tells what a cache takes.
type Stats struct {
	Bytes  int64 // of memory taken, unused parts and overhead included, also for blocks that were evicted but are pinned
	Blocks int64 // that are in it
}

// Stats adds up the shards, one after the other.
func (c *Cache) Stats() Stats {
	var s Stats
	for i := range c.shards {
		blocks := c.shards[i].heldBlocks.Load()
		s.Bytes += c.shards[i].heldChunks.Load() + c.shards[i].heldLoose.Load() + blocks*blockOverhead
		s.Blocks += blocks
	}
	return s
}

// shard chooses by other bits than a table does for the place within it.
func (c *Cache) shard(h uint64) *shard { return &c.shards[(h>>1)&c.mask] }
