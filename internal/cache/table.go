package cache

import (
	"math/bits"
	"sync/atomic"
)

// A table finds blocks by key: open addressing, linear probing, never more
// than three quarters full. Readers use it without a lock, beside one writer
// that holds the shard's lock.
//
// A slot's words are written one after the other, and deletion moves later slots
// back (so that there are no tombstones, and no cleaning of them). A reader that
// meets a slot half written, or one that moves past it, therefore finds another
// block or none. The first is seen by the block's key; for the second the writer
// counts its moves, when it begins and when it is done, and the reader looks
// again (see shard.get).
type table struct {
	shard *shard // whose blocks it finds; constant
	slots []slot // a power of two
	shift uint8  // takes the top bits of a hash to an index
	used  int    // by the writer
}

// A slot has half a line of the processor's cache.
type slot struct {
	file   atomic.Uint64 // of the block's key, and 1: 0 is an empty slot
	offset atomic.Uint64
	block  atomic.Pointer[Block]
	place  atomic.Uint64 // of a piece, for Peek, which does not look at the block; and the bit visited
}

// visited is set in place by a hit since the sieve's hand came by. A hit that
// meets a slot which changes may set it for another block, or in vain.
const visited = 1 << 63

// visit notes a hit, only if it was not noted: hot slots stay shared between
// cores.
func (s *slot) visit(place uint64) {
	if place&visited == 0 {
		s.place.Or(visited)
	}
}

// unvisit forgets a hit and tells whether there was one.
func (s *slot) unvisit() bool {
	return s.place.Load()&visited != 0 && s.place.And(^uint64(visited))&visited != 0
}

// hash returns the hash of the slot's key.
func (s *slot) hash() uint64 { return Key{s.file.Load() - 1, s.offset.Load()}.hash() }

// set writes the slot, what makes it valid last.
func (s *slot) set(file, offset uint64, b *Block, place uint64) {
	s.block.Store(b)
	s.place.Store(place)
	s.offset.Store(offset)
	s.file.Store(file)
	b.slot = s
}

// minSlots is the size of a shard's first table.
const minSlots = 64

func newTable(s *shard, n int) *table {
	return &table{shard: s, slots: make([]slot, n), shift: uint8(64 - bits.TrailingZeros(uint(n)))}
}

// get returns the block at k, pinned, or nil.
func (t *table) get(h uint64, k Key) *Block {
	mask := uint(len(t.slots) - 1)
	i := uint(h >> t.shift)
	for range t.slots { // slots move: don't run in circles after them
		s := &t.slots[i&mask]
		file := s.file.Load()
		if file == 0 {
			return nil
		}
		if s.offset.Load() == k.Offset && file == k.File+1 {
			if b := s.block.Load(); b != nil && b.pin(t.shard, k) {
				s.visit(s.place.Load())
				return b
			}
		}
		i++
	}
	return nil
}

// put adds b. Requires: the shard's lock; no block with its key is there; the
// table is not full.
func (t *table) put(h uint64, b *Block) { t.add(h, b, b.place()) }

func (t *table) add(h uint64, b *Block, place uint64) {
	mask := uint(len(t.slots) - 1)
	i := uint(h>>t.shift) & mask
	for t.slots[i].file.Load() != 0 {
		i = (i + 1) & mask
	}
	t.slots[i].set(b.key.File+1, b.key.Offset, b, place)
	t.used++
}

// remove takes b out and closes the gap: each later slot up to the next empty
// one moves into it unless that lies before the slot's own first place.
// Requires: the shard's lock; b is in the table.
func (t *table) remove(h uint64, b *Block) {
	mask := uint(len(t.slots) - 1)
	gap := uint(h>>t.shift) & mask
	for t.slots[gap].block.Load() != b {
		gap = (gap + 1) & mask
	}
	for i := (gap + 1) & mask; ; i = (i + 1) & mask {
		moving := &t.slots[i]
		if moving.file.Load() == 0 {
			break
		}
		home := uint(moving.hash()>>t.shift) & mask
		if (i-home)&mask >= (i-gap)&mask {
			t.slots[gap].set(moving.file.Load(), moving.offset.Load(), moving.block.Load(), moving.place.Load())
			gap = i
		}
	}
	t.slots[gap].file.Store(0)
	t.slots[gap].block.Store(nil)
	t.used--
}

// grown returns a table twice as large with the same blocks.
func (t *table) grown() *table {
	g := newTable(t.shard, 2*len(t.slots))
	for i := range t.slots {
		if s := &t.slots[i]; s.file.Load() != 0 {
			g.add(s.hash(), s.block.Load(), s.place.Load())
		}
	}
	return g
}

// crowded says that one more block would be too many.
func (t *table) crowded() bool { return 4*(t.used+1) > 3*len(t.slots) }
