package cache

import "github.com/shaledb/shale/internal/offheap"

// How a shard keeps within its capacity:
//
// It begins with loose blocks, which are charged one by one. When it has looseMax bytes
// of them, or is full, it goes over to chunks, which are charged as a whole, holes included. So a
// small store takes no memory outside the Go heap, and a large one almost none on it.
//
// To get a piece, the shard takes a hole. If no hole is large enough,
// it adds a chunk. If the capacity does not allow that, the door
// decides whether the block gets in (see door.go). If it does, the shard
// evicts SIEVE's victims until one leaves a hole that is large enough.
//
// When the sizes of blocks change, the victims may leave only holes that are
// too small, for a long time, and the arena is full of such holes. So if the
// emptiest chunk is at most half full, all its blocks are evicted instead.

// looseBytes is the limit of a cache's loose blocks, in bytes for all shards together.
const looseBytes = 1 << 20

// taken returns how many bytes of its capacity s uses. Requires: s.mu is held.
func (s *shard) taken() int64 { return s.arena.taken + s.loose + s.blocks*blockOverhead }

// AllocAt returns a block of n bytes, pinned once, which is to be inserted at k. Its memory
// comes from the shard of k, so that Insert can keep it. Its contents are undefined.
func (c *Cache) AllocAt(k Key, n int) *Block {
	h := k.hash()
	return c.shard(h).alloc(h, n)
}

// alloc is AllocAt for the shard of the key.
func (s *shard) alloc(h uint64, n int) *Block {
	class := classOf(n)
	size := int64(n)
	if class != noClass {
		size = int64(classBytes(class))
	}
	if size+blockOverhead > s.capacity/2 { // Insert will not keep it
		return allocLoose(n)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed || s.loose+size <= s.looseMax && (s.capacity <= s.looseMax || s.taken()+size+blockOverhead <= s.capacity):
		return allocLoose(n)
	case class == noClass || int(size) > s.arena.chunkBytes/4:
		return s.allocMapped(h, n)
	}
	var b *Block
	if s.taken()+blockOverhead <= s.capacity { // Insert will evict nothing
		b = s.carve(class)
	}
	if b == nil && !s.mayGrow() && !s.door.admit(h, s.blocks) {
		return refused(n)
	}
	if b == nil {
		b = s.piece(class)
	}
	if b == nil {
		return allocLoose(n)
	}
	b.buf = b.buf[:n]
	return b
}

// refused returns a block of n bytes that the door does not let in.
//
//go:noinline
func refused(n int) *Block {
	b := allocLoose(n)
	b.passing = true
	return b
}

// allocMapped returns a block with memory of its own, for n bytes that are too large for a piece. If
// others must be evicted for it, the door decides as for pieces. h is the hash of the key. Requires:
// s.mu is held.
func (s *shard) allocMapped(h uint64, n int) *Block {
	size := (n + pageBytes - 1) &^ (pageBytes - 1)
	var mem []byte
	if charge := int64(size) + blockOverhead; s.taken()+charge > s.capacity {
		if !s.door.admit(h, s.blocks) {
			return refused(n)
		}
		// The system takes long to give out memory that nobody has touched: a fault and 4 KiB to
		// clear for each page. So evict puts memory of about this size aside.
		s.wanted = int64(size)
		s.makeRoom(charge)
		mem, s.wanted, s.caught = s.caught, 0, nil
	}
	if mem == nil {
		mem = offheap.Alloc(size)
		s.mapped.add(mem)
	}
	b := newBlock(mappedClass, 0)
	b.buf, b.shard = mem[:n], s
	return b
}

// pageBytes is the unit in which memory is mapped.
const pageBytes = 4096

// piece returns a piece for a class, pinned once. It returns nil
// if all that could be evicted is pinned. Requires: s.mu is held.
func (s *shard) piece(class int) *Block {
	for {
		if b := s.carve(class); b != nil {
			return b
		}
		if !s.mayGrow() {
			if !s.evictSome() {
				return nil
			}
			continue
		}
		s.grow()
	}
}

// mayGrow reports whether another chunk fits into the capacity. It counts the overhead of
// the blocks that the chunk will have when it is full, assuming blocks of the usual size.
func (s *shard) mayGrow() bool {
	a, more := &s.arena, int64(s.arena.chunkBytes)
	expected := int64(0)
	if s.blocks > 0 && a.taken > 0 {
		expected = int64(float64(more) / float64(a.taken) * float64(s.blocks*blockOverhead))
	}
	return s.taken()+more+expected <= s.capacity
}

// evictSome evicts the blocks of the emptiest chunk, if
// that is at most half full, or otherwise SIEVE's victim.
// It returns false if there is nothing to evict. Requires: s.mu is held.
func (s *shard) evictSome() bool {
	if c := s.arena.sparse.least(); c != nil && s.evictChunk(c) {
		return true
	}
	if s.order.oldest == nil {
		return false
	}
	s.evict(s.order.victim())
	return true
}

// makeRoom evicts blocks until charge bytes fit into the capacity.
// It returns false if it can't evict enough. Requires: s.mu is held.
func (s *shard) makeRoom(charge int64) bool {
	for s.taken()+charge > s.capacity {
		if !s.evictSome() {
			return false
		}
		s.trim()
	}
	return true
}

// evictChunk evicts the blocks of a chunk, and reports whether there were any. A
// pinned block keeps its piece until its last Release. Requires: s.mu is held.
func (s *shard) evictChunk(c *chunk) bool {
	some := false
	for b := c.first; b != nil; b = b.right {
		if b.kept {
			some = true
			b = s.evict(b)
		}
	}
	return some
}
