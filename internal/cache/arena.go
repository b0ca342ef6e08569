package cache

import (
	"math/bits"
	"sync/atomic"

	"github.com/shaledb/shale/internal/offheap"
)

// An arena is the part of a shard's memory outside the Go heap. It consists of chunks, and
// each chunk is divided completely into pieces. A piece is the buffer of a Block, or a
// hole, which has a Block as its header too. Holes next to each other are joined to one.
// So the sizes of blocks may change over time. room.go bounds the waste that remains.
//
// A chunk without blocks is given back to the system. But its
// addresses stay reserved until nobody can reach the cache any more,
// because Peek may read memory that is given back at the same time.
//
// The shard's mu guards all fields but bases.
type arena struct {
	chunkBytes int // a power of two
	chunks     []*chunk
	unused     []*chunk                       // those that are not in use
	sparse     sparse                         // those in use that are at most half full
	bases      atomic.Pointer[[][]byte]       // the chunks' memory, for Peek; replaced, never changed
	bins       [numClasses]*Block             // holes with room for the class, but not for the next one
	filled     [(numClasses + 63) / 64]uint64 // bit i is set if bins[i] is not empty
	spare      *Block                         // unused Blocks for pieces, linked by older
	taken      int64                          // bytes of the chunks in use
}

// A chunk is a large part of an arena. It is in use if first is not nil.
type chunk struct {
	id    int
	mem   []byte // nil: given back to the system, with its addresses
	first *Block // the piece at offset 0
	live  int    // bytes of the pieces that are not holes
	place int    // in the arena's sparse, from 1; 0: not there
}

const (
	minChunkBytes = 64 << 10
	maxChunkBytes = 2 << 20
	// headerSlab is how many Blocks for pieces are allocated together.
	headerSlab = 32
)

// chunkBytesFor returns the chunk size for a shard of this capacity:
// between a 64th and a 32nd of it, within minChunkBytes and maxChunkBytes.
func chunkBytesFor(capacity int64) int {
	n := minChunkBytes
	for n < maxChunkBytes && int64(64*n) <= capacity {
		n *= 2
	}
	return n
}

// header returns an unused Block for a piece. Readers that found it in its
// last life may still add and remove pins: see Block. Requires: s.mu is held.
func (s *shard) header() *Block {
	a := &s.arena
	if a.spare == nil {
		slab := make([]Block, headerSlab)
		for i := range slab {
			b := &slab[i]
			b.refs.Store(freed)
			b.shard = s
			b.older, a.spare = a.spare, b
		}
	}
	b := a.spare
	a.spare, b.older = b.older, nil
	return b
}

// spareHeader takes back the Block of a piece that no longer exists.
func (a *arena) spareHeader(b *Block) {
	b.chunk, b.left, b.right, b.buf, b.hole = nil, nil, nil, nil, false
	b.older, b.newer, a.spare = a.spare, nil, b
}

// binOf returns the bin for a hole of n bytes.
func binOf(n int) int {
	if n >= 1<<maxClassBits {
		return numClasses - 1
	}
	class := classOf(n)
	if classBytes(class) > n {
		class--
	}
	return class
}

// addHole puts the hole b into its bin.
func (a *arena) addHole(b *Block) {
	bin := binOf(cap(b.buf))
	b.hole = true
	b.newer, b.older = nil, a.bins[bin]
	if b.older != nil {
		b.older.newer = b
	}
	a.bins[bin] = b
	a.filled[bin/64] |= 1 << (bin % 64)
}

// removeHole takes b out of its bin.
func (a *arena) removeHole(b *Block) {
	bin := binOf(cap(b.buf))
	if b.older != nil {
		b.older.newer = b.newer
	}
	if b.newer != nil {
		b.newer.older = b.older
	} else if a.bins[bin] = b.older; b.older == nil {
		a.filled[bin/64] &^= 1 << (bin % 64)
	}
	b.hole, b.newer, b.older = false, nil, nil
}

// holeFor takes a hole with room for a class out of its bin, and returns it,
// or nil if there is none. It takes one of the smallest bin that has some.
func (a *arena) holeFor(class int) *Block {
	word := class / 64
	set := a.filled[word] &^ (1<<(class%64) - 1)
	for set == 0 {
		if word++; word == len(a.filled) {
			return nil
		}
		set = a.filled[word]
	}
	b := a.bins[64*word+bits.TrailingZeros64(set)]
	a.removeHole(b)
	return b
}

// carve makes a piece for a class from a hole, and returns it pinned once. It
// returns nil if no hole is large enough. What remains of the hole becomes
// another hole, unless it is too small for any class. Requires: s.mu is held.
func (s *shard) carve(class int) *Block {
	a := &s.arena
	b := a.holeFor(class)
	if b == nil {
		return nil
	}
	size := classBytes(class)
	if rest := cap(b.buf) - size; rest >= 1<<minClassBits {
		r := s.header()
		r.chunk, r.off = b.chunk, b.off+uint32(size)
		r.buf = b.buf[size:cap(b.buf):cap(b.buf)]
		r.left, r.right = b, b.right
		if b.right != nil {
			b.right.left = r
		}
		b.right, b.buf = r, b.buf[:size:size]
		a.addHole(r)
	}
	b.chunk.live += cap(b.buf)
	a.sparse.update(b.chunk)
	checkPoison(b.buf)
	b.refs.Add(1 - freed)
	return b
}

// freePiece makes b a hole, joins it with the holes next to it, and returns the
// result. Requires: s.mu is held, and refs is freed, except for pins of late readers.
func (s *shard) freePiece(b *Block) *Block {
	a, c := &s.arena, b.chunk
	if b.published.Load() {
		b.published.Store(false)
		s.heldBlocks.Add(-1)
	}
	poison(b.buf)
	c.live -= cap(b.buf)
	a.sparse.update(c)
	if l := b.left; l != nil && l.hole {
		a.removeHole(l)
		b = a.join(l, b)
	}
	if r := b.right; r != nil && r.hole {
		a.removeHole(r)
		b = a.join(b, r)
	}
	b.buf = b.buf[:cap(b.buf)]
	a.addHole(b)
	return b
}

// join joins two neighbouring pieces of a chunk into the left one, and returns it.
func (a *arena) join(l, r *Block) *Block {
	end := int(l.off) + cap(l.buf) + cap(r.buf)
	l.buf = l.chunk.mem[l.off:end:end]
	if l.right = r.right; l.right != nil {
		l.right.left = l
	}
	a.spareHeader(r)
	return l
}

// grow adds a chunk, which is one hole at first. If there is a chunk
// that is not in use, it uses that one again. Requires: s.mu is held.
func (s *shard) grow() {
	a := &s.arena
	if len(a.unused) == 0 {
		c := &chunk{id: len(a.chunks)}
		a.chunks, a.unused = append(a.chunks, c), append(a.unused, c)
	}
	c := a.unused[len(a.unused)-1]
	a.unused = a.unused[:len(a.unused)-1]
	switch {
	case c.mem == nil:
		c.mem = offheap.Alloc(a.chunkBytes)
		offheap.Huge(c.mem)
		s.mapped.add(c.mem)
		a.setBases()
	default:
		offheap.Retake(c.mem)
		s.mapped.add(c.mem)
	}
	poison(c.mem)
	b := s.header()
	b.chunk, b.off, b.buf = c, 0, c.mem[:a.chunkBytes:a.chunkBytes]
	c.first = b
	a.addHole(b)
	a.sparse.update(c)
	a.taken += int64(a.chunkBytes)
	s.heldChunks.Store(a.taken)
}

// setBases replaces bases after a chunk's memory has changed.
func (a *arena) setBases() {
	bases := make([][]byte, len(a.chunks))
	for i, c := range a.chunks {
		bases[i] = c.mem
	}
	a.bases.Store(&bases)
}

// trim gives chunks without blocks back to the system. Requires: s.mu is held.
func (s *shard) trim() {
	for c := s.arena.sparse.least(); c != nil && c.live == 0; c = s.arena.sparse.least() {
		s.discard(c)
	}
}

// discard gives the memory of c back to the system. Where the system can
// do so, c keeps its addresses. Requires: s.mu is held, and c is one hole.
func (s *shard) discard(c *chunk) {
	a := &s.arena
	a.removeHole(c.first)
	a.spareHeader(c.first)
	c.first = nil
	a.sparse.update(c)
	a.unused = append(a.unused, c)
	a.taken -= int64(a.chunkBytes)
	s.heldChunks.Store(a.taken)
	if b := offheap.Discard(c.mem); b == nil {
		s.mapped.remove(c.mem)
		c.mem = nil
		a.setBases()
	} else {
		s.mapped.discard(b)
	}
}
