package cache

// A Peek is a look at a block without a pin. The block may be evicted at any
// time, and after that Bytes may hold anything. So a caller expects wrong
// bytes, copies what it needs, and then calls Valid. Only if Valid returns
// true, what was read was the block. The memory itself can always be read.
//
// A Peek writes to no shared memory except the mark of a hit, and does not wait
// until the block's count of pins is loaded from memory. So it suits short lookups.
type Peek struct {
	Bytes []byte // nil: the block is not there, or can be had only with a pin
	shard *shard
	moves uint64 // shard.moves at the beginning
}

// Peek looks at the block at k. It may return nothing although the block is in the cache.
func (c *Cache) Peek(k Key) Peek {
	h := k.hash()
	s := c.shard(h)
	moves := s.moves.Load() // before the table: see Valid
	t := s.table.Load()
	if !ordered || t == nil || moves&1 != 0 {
		return Peek{}
	}
	mask := uint(len(t.slots) - 1)
	i := uint(h >> t.shift)
	for range t.slots {
		slot := &t.slots[i&mask]
		file := slot.file.Load()
		if file == 0 {
			return Peek{}
		}
		if slot.offset.Load() == k.Offset && file == k.File+1 {
			place := slot.place.Load()
			slot.visit(place)
			return Peek{s.at(place), s, moves}
		}
		i++
	}
	return Peek{}
}

// Holds reports whether the block at k is in the cache. It does not count as a hit. It may miss
// a block, so it is for deciding whether a read is worth while.
func (c *Cache) Holds(k Key) bool {
	h := k.hash()
	t := c.shard(h).table.Load()
	if t == nil {
		return false
	}
	mask := uint(len(t.slots) - 1)
	i := uint(h >> t.shift)
	for range t.slots {
		slot := &t.slots[i&mask]
		file := slot.file.Load()
		if file == 0 {
			return false
		}
		if slot.offset.Load() == k.Offset && file == k.File+1 {
			return true
		}
		i++
	}
	return false
}

// Valid reports whether Bytes held the block during all reads up to now.
// It does if no block of the shard was evicted since Peek loaded moves.
//
// This is true only because Peek loads moves before it loads the table. Every table that
// it loads after moves holds only blocks that were in the cache at some time after moves
// was loaded. (This includes a table that a larger one has replaced.) If moves is the same
// in Valid, none of these blocks was evicted since, and their memory is still theirs.
//
// In the other order, the table could grow between the two loads. An
// eviction then takes its block out of the new table only, and counts it in
// moves before Peek loads moves. Peek would find the block in the old table,
// although its memory belongs to another block, and Valid would not notice.
func (p *Peek) Valid() bool { return p.shard.moves.Load() == p.moves }

// A place is the number of a chunk, an offset in it and a length, in one word. It is loaded
// and stored as a whole, so it always lies within one chunk. A length of 0 means that there
// is no place. The offset is in units of placeUnit, because pieces begin at multiples of it.
const (
	placeUnit    = 16 // bytes
	placeLenBits = 20
	placeOffBits = 18
)

// place returns the place of b's bytes, or 0 if Peek can't read them.
func (b *Block) place() uint64 {
	if b.chunk == nil || len(b.buf) >= 1<<placeLenBits {
		return 0
	}
	return uint64(len(b.buf)) | uint64(b.off/placeUnit)<<placeLenBits |
		uint64(b.chunk.id)<<(placeLenBits+placeOffBits)
}

// at returns the bytes at a place. It returns nil if there is none,
// or if the chunk's memory was given back with its addresses.
func (s *shard) at(place uint64) []byte {
	n := place & (1<<placeLenBits - 1)
	if n == 0 {
		return nil
	}
	off := place >> placeLenBits & (1<<placeOffBits - 1) * placeUnit
	mem := (*s.arena.bases.Load())[place&^visited>>(placeLenBits+placeOffBits)]
	if off+n > uint64(len(mem)) {
		return nil
	}
	return mem[off : off+n : off+n]
}
