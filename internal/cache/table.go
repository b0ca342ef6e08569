package cache

import (
	"math/bits"
	"sync/atomic"
)

// A table finds blocks by their keys: a hash table with open addressing and
// linear probing, which is never more than three quarters full. Readers use it
// without a lock, at the same time as one writer that holds the shard's mu.
//
// The words of a slot are written one after the other. A removal moves later slots
// back, so there are no tombstones that would have to be cleaned up. So a reader
// may meet a slot that is half written, or may miss a slot that moves past it. In
// the first case it finds another block, and notices it by the block's key. In the
// second case it finds none. For that, the writer counts in shard.moves when a
// removal begins and when it is done, and the reader looks again (see shard.get).
type table struct {
	shard *shard // whose blocks it holds; constant
	slots []slot // the number is a power of two
	shift uint8  // hash>>shift is an index into slots
	used  int    // number of slots in use; for the writer
}

// A slot takes half a cache line of the processor.
type slot struct {
	file   atomic.Uint64 // file number of the key plus 1; 0: the slot is empty
	offset atomic.Uint64 // offset of the key
	block  atomic.Pointer[Block]
	place  atomic.Uint64 // place of the block, for Peek, which does not load the block; and the bit visited
}

// visited is set in place by a hit, until the hand of the sieve
// passes. If the slot changes during a hit, the bit may be set for
// another block, or lost. That only makes an eviction a little worse.
const visited = 1 << 63

// visit marks a hit. It writes only if the mark is not set, so that
// the cores can share the cache line of a slot that is hit often.
func (s *slot) visit(place uint64) {
	if place&visited == 0 {
		s.place.Or(visited)
	}
}

// unvisit removes the mark of a hit and reports whether there was one.
func (s *slot) unvisit() bool {
	return s.place.Load()&visited != 0 && s.place.And(^uint64(visited))&visited != 0
}

// hash returns the hash of the slot's key.
func (s *slot) hash() uint64 { return Key{s.file.Load() - 1, s.offset.Load()}.hash() }

// set writes the slot. It writes file last, because that makes the slot valid.
func (s *slot) set(file, offset uint64, b *Block, place uint64) {
	s.block.Store(b)
	s.place.Store(place)
	s.offset.Store(offset)
	s.file.Store(file)
	b.slot = s
}

// minSlots is the number of slots of a shard's first table.
const minSlots = 64

// newTable returns an empty table with n slots. Requires: n is a power of two.
func newTable(s *shard, n int) *table {
	return &table{shard: s, slots: make([]slot, n), shift: uint8(64 - bits.TrailingZeros(uint(n)))}
}

// get returns the block at k, pinned, or nil.
func (t *table) get(h uint64, k Key) *Block {
	mask := uint(len(t.slots) - 1)
	i := uint(h >> t.shift)
	for range t.slots { // slots may move during the search: it must end all the same
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

// put adds b. Requires: the shard's mu is held, the
// table has no block with b's key, and it is not full.
func (t *table) put(h uint64, b *Block) { t.add(h, b, b.place()) }

// add is put for a place that is known already.
func (t *table) add(h uint64, b *Block, place uint64) {
	mask := uint(len(t.slots) - 1)
	i := uint(h>>t.shift) & mask
	for t.slots[i].file.Load() != 0 {
		i = (i + 1) & mask
	}
	t.slots[i].set(b.key.File+1, b.key.Offset, b, place)
	t.used++
}

// remove takes b out and closes the gap. It goes through the slots after the gap, up to the
// next empty one. A slot moves into the gap unless its home, the slot where a search for its
// key begins, lies after the gap. Requires: the shard's mu is held, and b is in the table.
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

// grown returns a table of twice the size with the same blocks.
func (t *table) grown() *table {
	g := newTable(t.shard, 2*len(t.slots))
	for i := range t.slots {
		if s := &t.slots[i]; s.file.Load() != 0 {
			g.add(s.hash(), s.block.Load(), s.place.Load())
		}
	}
	return g
}

// crowded reports whether the table is too full for one more block.
func (t *table) crowded() bool { return 4*(t.used+1) > 3*len(t.slots) }
