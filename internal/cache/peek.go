package cache

// A Peek is a look at a block without a pin. Bytes may be anything from the
// moment on that the block is evicted, so who reads them must expect nonsense,
// copies what he wants, and asks Valid then: only if that is true, what he read
// was the block. The memory itself stays readable.
//
// It costs no write to memory that others use, and neither waits for the block's
// count of pins to come from memory, so it suits short lookups.
type Peek struct {
	Bytes []byte // nil: not there, or not to be had without a pin
	shard *shard
	moves uint64
}

// Peek looks at the block at k. It may fail although the block is there.
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

// Valid reports whether Bytes were the block's up to now, because no block of the
// shard was evicted since Peek read moves.
//
// That Peek reads moves before it reads the table is what makes this true. A
// table that it reads later holds, or held when a larger one took its place, only
// blocks that were in the cache at a time after moves was read. If moves is the
// same here, none of them was evicted since, and their pieces are still theirs.
// The other way round, the table can grow between the two loads. An eviction
// then takes its block out of the new table only, counts its moves before Peek
// reads them, and Peek finds the block in the old table, with memory that is
// another block's.
func (p *Peek) Valid() bool { return p.shard.moves.Load() == p.moves }

// A place is a chunk's number, an offset in it and a length, in one word: never
// half of one and half of another, it is always within a chunk. A length of 0
// says that there is none.
const (
	placeUnit    = 16 // pieces begin at multiples of it
	placeLenBits = 20
	placeOffBits = 18
)

// place returns where b's bytes are, 0 if they are not to be peeked at.
func (b *Block) place() uint64 {
	if b.chunk == nil || len(b.buf) >= 1<<placeLenBits {
		return 0
	}
	return uint64(len(b.buf)) | uint64(b.off/placeUnit)<<placeLenBits |
		uint64(b.chunk.id)<<(placeLenBits+placeOffBits)
}

// at returns the bytes at a place, nil if there is none or the chunk's memory is
// gone.
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
