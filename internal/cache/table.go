package cache

import (
	"math/bits"
	"sync/atomic"
)

// A table finds blocks by key: open addressing, linear probing, never more
// than three quarters full. Readers use it without a lock, beside one writer
// that holds the shard's lock.
//
// A slot's two words are written one after the other, and deletion moves
// later slots back (so that there are no tombstones, and no cleaning of them).
// A reader that meets a slot half written, or one that moves past it, therefore
// finds another block or none. The first is seen by its key; for the second the
// writer counts its moves, when it begins and when it is done, and the reader
// looks again (see shard.get).
type table struct {
	shard *shard // whose blocks it finds; constant
	slots []slot // a power of two
	shift uint8  // takes the top bits of a hash to an index
	used  int    // by the writer
}

type slot struct {
	hash  atomic.Uint64 // 0: empty
	block atomic.Pointer[Block]
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
		switch s.hash.Load() {
		case 0:
			return nil
		case h:
			if b := s.block.Load(); b != nil && b.pin(t.shard, k) {
				return b
			}
		}
		i++
	}
	return nil
}

// put adds b. Requires: the shard's lock; no block with its key is there; the
// table is not full.
func (t *table) put(h uint64, b *Block) {
	mask := uint(len(t.slots) - 1)
	i := uint(h>>t.shift) & mask
	for t.slots[i].hash.Load() != 0 {
		i = (i + 1) & mask
	}
	t.slots[i].block.Store(b)
	t.slots[i].hash.Store(h)
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
		moving := t.slots[i].hash.Load()
		if moving == 0 {
			break
		}
		home := uint(moving>>t.shift) & mask
		if (i-home)&mask >= (i-gap)&mask {
			t.slots[gap].block.Store(t.slots[i].block.Load())
			t.slots[gap].hash.Store(moving)
			gap = i
		}
	}
	t.slots[gap].hash.Store(0)
	t.slots[gap].block.Store(nil)
	t.used--
}

// grown returns a table twice as large with the same blocks.
func (t *table) grown() *table {
	g := newTable(t.shard, 2*len(t.slots))
	for i := range t.slots {
		if h := t.slots[i].hash.Load(); h != 0 {
			g.put(h, t.slots[i].block.Load())
		}
	}
	return g
}

// crowded says that one more block would be too many.
func (t *table) crowded() bool { return 4*(t.used+1) > 3*len(t.slots) }
