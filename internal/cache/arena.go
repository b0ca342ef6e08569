package cache

import (
	"math/bits"
	"sync/atomic"

	"github.com/shaledb/shale/internal/offheap"
)

// An arena is a shard's memory beside the Go heap: chunks, each cut into pieces
// that fill it. A piece is a Block's buffer, or a hole, which has a Block too.
// Holes next to each other become one, so that the sizes of blocks may change
// as they like; what remains of waste the shard bounds (see room.go).
//
// A chunk without blocks is given back, but its addresses are kept until nobody
// can reach the cache any more: Peek reads what may be given back meanwhile.
//
// Guarded by the shard's mu, but for bases.
type arena struct {
	chunkBytes int // a power of two
	chunks     []*chunk
	bases      atomic.Pointer[[][]byte] // the chunks' memory, for Peek; never changed in place
	bins       [numClasses]*Block       // holes of at least the class's length, the next class's not
	filled     [(numClasses + 63) / 64]uint64
	spare      *Block // headers for pieces, by older
	taken      int64  // bytes of the chunks in use
}

// A chunk is in use if first is not nil.
type chunk struct {
	id    int
	mem   []byte // nil: given back with its addresses
	first *Block // the piece at the beginning
	live  int    // bytes of pieces that are not holes
}

const (
	minChunkBytes = 64 << 10
	maxChunkBytes = 2 << 20
	// headerSlab is how many headers are allocated at once.
	headerSlab = 32
)

// chunkBytesFor makes chunks of a 64th to a 32nd of a shard.
func chunkBytesFor(capacity int64) int {
	n := minChunkBytes
	for n < maxChunkBytes && int64(64*n) <= capacity {
		n *= 2
	}
	return n
}

// header returns a Block for a piece. Late readers may have it pinned.
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

// spareHeader takes back the header of a piece that is no more.
func (a *arena) spareHeader(b *Block) {
	b.chunk, b.left, b.right, b.buf, b.hole = nil, nil, nil, nil, false
	b.older, b.newer, a.spare = a.spare, nil, b
}

// binOf returns the bin of a hole of n bytes.
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

// holeFor returns a hole of at least a class's length, out of its bin, or nil.
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

// carve makes a piece of a class's length out of a hole, if there is one that
// has room for it.
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
	checkPoison(b.buf)
	b.refs.Add(1 - freed)
	return b
}

// freePiece makes b a hole, with the holes beside it. Requires: s.mu is held;
// refs is freed, but for late readers.
func (s *shard) freePiece(b *Block) *Block {
	a, c := &s.arena, b.chunk
	if b.published.Load() {
		b.published.Store(false)
		s.heldBlocks.Add(-1)
	}
	poison(b.buf)
	c.live -= cap(b.buf)
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

// join makes neighbours one piece, the left one.
func (a *arena) join(l, r *Block) *Block {
	end := int(l.off) + cap(l.buf) + cap(r.buf)
	l.buf = l.chunk.mem[l.off:end:end]
	if l.right = r.right; l.right != nil {
		l.right.left = l
	}
	a.spareHeader(r)
	return l
}

// grow adds a chunk. Requires: s.mu is held.
func (s *shard) grow() {
	a := &s.arena
	var c *chunk
	for _, old := range a.chunks {
		if old.first == nil {
			c = old
			break
		}
	}
	switch {
	case c == nil:
		c = &chunk{id: len(a.chunks)}
		a.chunks = append(a.chunks, c)
		fallthrough
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
	a.taken += int64(a.chunkBytes)
	s.heldChunks.Store(a.taken)
}

func (a *arena) setBases() {
	bases := make([][]byte, len(a.chunks))
	for i, c := range a.chunks {
		bases[i] = c.mem
	}
	a.bases.Store(&bases)
}

// trim gives chunks without blocks back. Requires: s.mu is held.
func (s *shard) trim() {
	for _, c := range s.arena.chunks {
		if c.first != nil && c.live == 0 {
			s.discard(c)
		}
	}
}

// discard gives the memory of a chunk back, which is one hole.
func (s *shard) discard(c *chunk) {
	a := &s.arena
	a.removeHole(c.first)
	a.spareHeader(c.first)
	c.first = nil
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
