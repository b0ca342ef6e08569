package cache

import (
	"math/bits"
	"sync/atomic"
)

// A door keeps blocks out of a full shard that are asked for once. What a lookup in no order or a scan
// reads is mostly not asked for again soon, and to keep it costs three times: another block is evicted,
// which may have been better; the bookkeeping; and, most of all, the block is decompressed into memory
// that is in no cache of the processor.
//
// So a block that does not fit without an eviction is refused, and the door notes its hash. If the block
// is missed again within about as many refusals as the shard has blocks, it gets in. A refused block goes
// to a buffer from the pools, where the memory of the refused block before it comes back soon. The
// shard keeps its last few refused blocks, so that a reader which comes back at once, or in another
// direction, does not read twice.
//
// Guarded by the shard's mu, but for used.
type door struct {
	refused []uint16    // a part of the hash for each refusal, by another part; nil: nothing was refused so far
	used    atomic.Bool // refused is not nil
	passing [2]*Block   // the last refused blocks, pinned; they are not in the table
	next    int         // index in passing of the one that leaves next
}

// A block of passing takes up to maxPassing bytes, and passingBytes of a shard's capacity are left for
// them. Larger blocks are refused without being kept.
const (
	maxPassing   = 8 << 10
	passingBytes = int64(len(door{}.passing)) * maxPassing
)

// admit reports whether the block with hash h may take the place of others in a full shard. blocks is
// how many the shard has. A block that is refused may do so when it is missed again.
func (d *door) admit(h uint64, blocks int64) bool {
	if d.refused == nil {
		d.refused = make([]uint16, 1<<bits.Len64(uint64(blocks)))
		d.used.Store(true)
	}
	// None of these bits has chosen the shard: see Key.hash.
	note, mark := &d.refused[h>>32&uint64(len(d.refused)-1)], uint16(h>>5)|1
	if *note == mark {
		*note = 0
		return true
	}
	*note = mark
	return false
}

// pass keeps b, a loose block that admit has refused, as one of passing. Requires: s.mu is held.
func (s *shard) pass(k Key, b *Block) {
	if cap(b.buf)+int(blockOverhead) > maxPassing {
		return
	}
	b.key, b.shard = k, s
	b.refs.Add(1)
	b.published.Store(true)
	s.heldLoose.Add(int64(cap(b.buf)))
	s.heldBlocks.Add(1)
	d := &s.door
	d.replace(d.next, b)
	d.next = (d.next + 1) % len(d.passing)
}

// find returns the block at k, pinned, if it is one of passing, or nil.
func (d *door) find(k Key) *Block {
	for _, b := range d.passing {
		if b != nil && b.key == k {
			b.Retain()
			return b
		}
	}
	return nil
}

// replace puts b, or nil, in the place of a block of passing. That one is loose, so its Release takes
// no lock.
func (d *door) replace(i int, b *Block) {
	if old := d.passing[i]; old != nil {
		old.Release()
	}
	d.passing[i] = b
}

// forget lets the blocks of passing go for which gone returns true.
func (d *door) forget(gone func(*Block) bool) {
	for i, b := range d.passing {
		if b != nil && gone(b) {
			d.replace(i, nil)
		}
	}
}
