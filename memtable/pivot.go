package memtable

import (
	"math/bits"
	"runtime"
	"sync/atomic"

	"github.com/shaledb/shale/internal/base"
)

// A search key is not in the arena, yet an entry can only name it by a number.
// So the goroutine that searches owns, for the time of one descent, a slot
// into which it copies the key, and its pivot entry names the slot. Copying
// keeps the caller's key from escaping to the heap, which a stored pointer
// would make it do.
//
// Keys of up to 16 bytes are in the entry itself and take no slot.
const (
	slotsPerShard = 8
	slotsTotal    = base.Shards * slotsPerShard
)

// pivotSlots hands out slots. A goroutine begins at the shard of its own, so
// that two of them rarely write to the same cache line.
type pivotSlots struct {
	shards [base.Shards]struct {
		taken atomic.Uint32 // bit i: slot i of the shard is owned by someone
		_     [60]byte
	}
	slots [slotsTotal]struct {
		key []byte // owned by the slot's owner; the buffer is kept for the next
		_   [40]byte
	}
}

// pivot returns an entry that stands for (key, trailer) in searches, and must
// be given to release after them. Owners wait for nobody while they own a
// slot, so when all 64 are taken one will be free soon.
func (p *pivotSlots) pivot(key []byte, trailer base.Trailer) entry {
	if len(key) <= base.PrefixLen {
		return makeEntry(key, trailer, 0)
	}
	if len(key) > maxKeyLen {
		// Longer than any key that is there, and bytes behind maxKeyLen cannot
		// decide: the cut key with a trailer that sorts behind all versions of
		// an equal key is at the same place.
		key, trailer = key[:maxKeyLen], 0
	}
	i := p.acquire()
	slot := &p.slots[i]
	slot.key = append(slot.key[:0], key...)
	e := makeEntry(key, trailer, uint64(i))
	e.ref |= pivotBit
	return e
}

// release gives back the slot of a pivot, if it has one.
func (p *pivotSlots) release(e entry) {
	if e.ref&pivotBit == 0 {
		return
	}
	i := uint(e.addr())
	taken := &p.shards[i/slotsPerShard].taken
	taken.And(^(uint32(1) << (i % slotsPerShard)))
}

// acquire returns the number of a slot that nobody else owns.
func (p *pivotSlots) acquire() uint {
	const full = 1<<slotsPerShard - 1
	for first := base.Shard(); ; runtime.Gosched() {
		for n := uint(0); n < base.Shards; n++ {
			shard := (first + n) % base.Shards
			taken := &p.shards[shard].taken
			for old := taken.Load(); old != full; old = taken.Load() {
				i := uint(bits.TrailingZeros32(^old))
				if taken.CompareAndSwap(old, old|1<<i) {
					return shard*slotsPerShard + i
				}
			}
		}
	}
}
