package memtable

import (
	"slices"

	"github.com/shaledb/shale/internal/base"
)

const (
	firstRun = 16  // entries that a seek copies
	maxRun   = 128 // the most that a later refill copies
)

// An Iterator walks the entries of a memtable that may grow at the same time. It sees at
// least the entries that were there when it was positioned. It may see some of the later
// ones, and its user skips them by their sequence numbers.
//
// It copies a run of neighbouring entries out of the tree, and walks the run without a lock.
// At the end of the run it looks up the entry next to the last one, and copies from there.
// Invariants:
//
//  1. run is ascending. When it was copied, the tree had no entry between two neighbours of
//     run.
//  2. at is an index of run, unless run is empty: then the iterator is not on an entry.
//  3. sizes[at] is the length of that entry's value. If measured is set, this holds for all
//     entries of run.
type Iterator struct {
	m    *Memtable
	take func(entry) bool // appends to run; made once, because a closure is allocated

	run      []entry
	sizes    []uint32
	measured bool
	at       int
	want     int    // how many entries the next run gets
	chunks   chunks // a copy of the arena's list, to resolve the addresses of run without a lock
	kv       base.KV
	touched  byte // a result of touch, so that the compiler keeps its loads

	// The memory of run and sizes until a walk goes beyond the first run.
	firstEntries [firstRun]entry
	firstSizes   [firstRun]uint32
}

var _ base.Iterator = (*Iterator)(nil)

// NewIterator returns an iterator that is not on an entry. It holds no lock, and need not be
// closed. Requires: m stays pinned while the iterator is used.
func (m *Memtable) NewIterator() base.Iterator {
	it := new(Iterator)
	it.Reset(m)
	return it
}

// Reset makes it an iterator over m that is not on an entry, without allocating if it was
// used before. Requires: it is closed, or the zero value.
func (it *Iterator) Reset(m *Memtable) {
	it.m = m
	if it.take == nil {
		it.run, it.sizes = it.firstEntries[:0], it.firstSizes[:]
		it.take = func(e entry) bool {
			it.run = append(it.run, e)
			return len(it.run) < it.want
		}
	}
}

// First moves to the first entry.
func (it *Iterator) First() *base.KV {
	it.want = firstRun
	locked := it.begin()
	it.m.ascendAll(it.take)
	return it.ascended(locked)
}

// Last moves to the last entry.
func (it *Iterator) Last() *base.KV {
	it.want = firstRun
	locked := it.begin()
	it.m.descendAll(it.take)
	return it.descended(locked)
}

// SeekGE moves to the first entry at or after (key, seq).
func (it *Iterator) SeekGE(key []byte, seq base.Seq) *base.KV {
	it.want = firstRun
	locked := it.begin()
	pivot := it.m.pivots.pivot(key, base.NewTrailer(seq, base.KindMax))
	it.m.ascend(pivot, it.take)
	it.m.pivots.release(pivot)
	return it.ascended(locked)
}

// SeekLT moves to the last entry whose user key is less than key. Its pivot sorts before all
// versions of key, and no entry is equal to it.
func (it *Iterator) SeekLT(key []byte) *base.KV {
	it.want = firstRun
	locked := it.begin()
	pivot := it.m.pivots.pivot(key, base.NewTrailer(base.MaxSeq, base.KindMax))
	it.m.descend(pivot, it.take)
	it.m.pivots.release(pivot)
	return it.descended(locked)
}

// Next moves one entry forward.
func (it *Iterator) Next() *base.KV {
	if !it.measured {
		it.measure()
	}
	if at := it.at + 1; at < len(it.run) {
		return it.stand(at)
	}
	return it.after()
}

// Prev moves one entry back.
func (it *Iterator) Prev() *base.KV {
	if !it.measured {
		it.measure()
	}
	if at := it.at - 1; at >= 0 && at < len(it.run) {
		return it.stand(at)
	}
	return it.before()
}

// after copies the run behind the current one.
func (it *Iterator) after() *base.KV {
	if len(it.run) == 0 {
		return nil // not on an entry
	}
	from := it.run[len(it.run)-1]
	from.trailer-- // the next possible entry; no underflow, because sequence numbers begin at 1
	it.growRun()
	locked := it.begin()
	it.m.ascend(from, it.take)
	return it.ascended(locked)
}

// before copies the run in front of the current one.
func (it *Iterator) before() *base.KV {
	if len(it.run) == 0 {
		return nil
	}
	from := it.run[0]
	from.trailer++ // the possible entry just before it
	it.growRun()
	locked := it.begin()
	it.m.descend(from, it.take)
	return it.descended(locked)
}

// growRun makes the next run longer. A walk that has used up a run probably goes on.
func (it *Iterator) growRun() {
	if cap(it.run) < maxRun {
		it.run, it.sizes = make([]entry, 0, maxRun), make([]uint32, maxRun)
	}
	it.want = min(it.want*4, maxRun)
}

// begin empties the run, and takes the lock for filling it. Its result is the argument of
// runlock. The list of chunks is copied under the lock: it has all chunks of the entries that
// the run will get.
func (it *Iterator) begin() bool {
	locked := it.m.rlock()
	it.run = it.run[:0]
	it.chunks = it.m.arena.chunks
	return locked
}

// ascended releases the lock after a run was filled, and moves to its first entry.
func (it *Iterator) ascended(locked bool) *base.KV {
	it.m.runlock(locked)
	return it.land(0)
}

// descended releases the lock after a run was filled backwards, and moves to its last entry.
func (it *Iterator) descended(locked bool) *base.KV {
	it.m.runlock(locked)
	slices.Reverse(it.run)
	return it.land(len(it.run) - 1)
}

// land moves to entry at of a new run. It returns nil if the run is empty.
func (it *Iterator) land(at int) *base.KV {
	if len(it.run) == 0 {
		return nil
	}
	it.measured = false
	it.sizes[at] = it.run[at].valueSize(it.chunks)
	return it.stand(at)
}

// measure reads the lengths of all values of the run. They are next to the keys, all over the
// arena. These loads do not wait for each other, so their cache misses overlap, and the steps
// that follow find the bytes in the cache: 38 ns a step instead of 58, through 500,000
// entries in random order. A seek does not measure: without a step after it, it would pay for
// the whole run (1,150 ns instead of 600).
func (it *Iterator) measure() {
	it.measured = true
	sizes := it.sizes[:len(it.run)]
	for i, e := range it.run {
		sizes[i] = e.valueSize(it.chunks)
	}
	if it.want == maxRun {
		it.touch()
	}
}

// touch loads a byte of each cache line of the run's items, and of long items only the first
// lines. It does so for the same reason as measure: a flush takes 202 ns for each entry
// instead of 252. Only long walks do this, because short ones would load much that they do
// not look at.
func (it *Iterator) touch() {
	const line, most = 64, 512
	var x byte
	for i, e := range it.run {
		n := e.keyLen() + valueLen + int(it.sizes[i])
		item := it.chunks.key(e.addr(), min(n, most))
		for p := 0; p < len(item); p += line {
			x += item[p]
		}
		x += item[len(item)-1]
	}
	it.touched = x
}

// stand moves to entry at of the run and returns it.
func (it *Iterator) stand(at int) *base.KV {
	it.at = at
	e := &it.run[at]
	it.kv.UserKey, it.kv.Value = it.chunks.item(e.addr(), e.keyLen(), it.sizes[at])
	it.kv.Trailer = e.trailer
	return &it.kv
}

// Err returns nil, because nothing can fail in memory.
func (it *Iterator) Err() error { return nil }

// Close drops the reference to the memtable. The iterator keeps its buffers for Reset.
func (it *Iterator) Close() error {
	it.m, it.chunks, it.kv = nil, nil, base.KV{}
	it.run = it.run[:0]
	return nil
}
