package cache

import "github.com/shaledb/shale/internal/offheap"

// How a shard keeps to its capacity. It begins with loose blocks, charged one by
// one, and goes over to chunks, charged as a whole, holes included, when there
// is enough to cache: so a small store takes nothing beside the Go heap, and a
// large one next to nothing on it.
//
// Who wants a piece takes a hole, adds a chunk, or evicts: SIEVE's victims until
// one leaves a hole that is large enough. When sizes change, what the victims
// leave may be too small for long, and the arena full of holes. Then the chunk
// that is emptiest is evicted as a whole, once that is at most half of it.

// looseBytes is what a cache has in loose blocks, in all its shards.
const looseBytes = 1 << 20

// taken is what s takes of its capacity. Requires: s.mu is held.
func (s *shard) taken() int64 { return s.arena.taken + s.loose + s.blocks*blockOverhead }

// AllocAt returns a block of n bytes, pinned once, to be inserted at k; it is
// best placed for that. What its bytes are is not defined.
func (c *Cache) AllocAt(k Key, n int) *Block { return c.shard(k.hash()).alloc(n) }

func (s *shard) alloc(n int) *Block {
	class := classOf(n)
	size := int64(n)
	if class != noClass {
		size = int64(classBytes(class))
	}
	if size+blockOverhead > s.capacity/2 { // will not be kept
		return allocLoose(n)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed || s.loose+size <= s.looseMax:
		return allocLoose(n)
	case class == noClass || int(size) > s.arena.chunkBytes/4:
		return s.allocMapped(n)
	}
	if b := s.piece(class); b != nil {
		b.buf = b.buf[:n]
		return b
	}
	return allocLoose(n)
}

// allocMapped maps memory for a block that is too large for a piece.
func (s *shard) allocMapped(n int) *Block {
	b := newBlock(mappedClass, 0)
	mem := offheap.Alloc((n + pageBytes - 1) &^ (pageBytes - 1))
	b.buf, b.shard = mem[:n], s
	s.mapped.add(mem)
	return b
}

const pageBytes = 4096

// piece returns a piece of a class, pinned once, or nil if all that is left is
// pinned. Requires: s.mu is held.
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

// mayGrow tells whether one more chunk will fit, also when it is full of blocks
// of the usual size.
func (s *shard) mayGrow() bool {
	a, more := &s.arena, int64(s.arena.chunkBytes)
	expected := int64(0)
	if s.blocks > 0 && a.taken > 0 {
		expected = int64(float64(more) / float64(a.taken) * float64(s.blocks*blockOverhead))
	}
	return s.taken()+more+expected <= s.capacity
}

// evictSome evicts the emptiest chunk or SIEVE's victim. False: there is none.
func (s *shard) evictSome() bool {
	if c := s.emptiest(); c != nil && c.live <= s.arena.chunkBytes/2 && s.evictChunk(c) {
		return true
	}
	if s.order.oldest == nil {
		return false
	}
	s.evict(s.order.victim())
	return true
}

// makeRoom makes room for a charge. False: not enough can be evicted.
// Requires: s.mu is held.
func (s *shard) makeRoom(charge int64) bool {
	for s.taken()+charge > s.capacity {
		if !s.evictSome() {
			return false
		}
		s.trim()
	}
	return true
}

// emptiest returns the chunk with the fewest bytes of blocks, nil if there is
// none.
func (s *shard) emptiest() (least *chunk) {
	for _, c := range s.arena.chunks {
		if c.first != nil && (least == nil || c.live < least.live) {
			least = c
		}
	}
	return least
}

// evictChunk evicts the blocks of a chunk and tells whether there were any. Those
// that are pinned keep their pieces.
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
