package memtable

import (
	"math/bits"
	"runtime"
	"sync/atomic"

	"github.com/shaledb/shale/internal/base"
)

// A search needs an entry for the key that it looks for: its pivot. But that key is not in
// the arena, and an entry can refer to a key only by a number. So a goroutine that searches
// owns a slot during one descent of the tree. It copies the key into the slot, and the pivot
// has the number of the slot. An entry with a pointer would make the caller's key escape to
// the heap.
//
// Keys of up to 16 bytes are in the pivot itself, and take no slot.
//
// The shards do not grow with the processors: as long as the memtable is written, readers share
// its lock anyway, and afterwards it stays for one flush.
const (
	pivotShards   = 8
	slotsPerShard = 8
	slotsTotal    = pivotShards * slotsPerShard
)

// A pivotSlots hands out slots. A goroutine begins to look at a shard of its own, so that two
// goroutines rarely write to the same cache line.
type pivotSlots struct {
	shards [pivotShards]struct {
		taken atomic.Uint32 // bit i is set while slot i of the shard is owned
		_     [60]byte
	}
	slots [slotsTotal]struct {
		key []byte // written only by the slot's owner; the next owner uses the buffer again
		_   [40]byte
	}
}

// pivot returns an entry that stands for (key, trailer) in a search. The caller must call
// release after the search. A goroutine waits for nothing while it owns a slot, because it
// takes the memtable's lock before. So when all 64 slots are owned, one becomes free soon.
func (p *pivotSlots) pivot(key []byte, trailer base.Trailer) entry {
	if len(key) <= base.PrefixLen {
		return makeEntry(key, trailer, 0)
	}
	if len(key) > maxKeyLen {
		// The key is longer than any in the memtable, so the bytes behind maxKeyLen can't
		// decide. A pivot of the first maxKeyLen bytes with trailer 0 sorts behind all
		// versions of an equal key: that is the same place.
		key, trailer = key[:maxKeyLen], 0
	}
	i := p.acquire()
	slot := &p.slots[i]
	slot.key = append(slot.key[:0], key...)
	e := makeEntry(key, trailer, uint64(i))
	e.ref |= pivotBit
	return e
}

// release gives the slot of a pivot back, if the pivot has one.
func (p *pivotSlots) release(e entry) {
	if e.ref&pivotBit == 0 {
		return
	}
	i := uint(e.addr())
	taken := &p.shards[i/slotsPerShard].taken
	taken.And(^(uint32(1) << (i % slotsPerShard)))
}

// acquire returns the number of a free slot, which the caller then owns. If there is none it
// tries again.
func (p *pivotSlots) acquire() uint {
	const full = 1<<slotsPerShard - 1
	for first := base.StripeOf(pivotShards); ; runtime.Gosched() {
		for n := range pivotShards {
			shard := uint(first+n) % pivotShards
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
