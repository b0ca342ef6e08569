package memtable

import (
	"slices"

	"github.com/shaledb/shale/internal/base"
)

const (
	firstRun = 16  // entries copied by a seek
	maxRun   = 128 // and by each refill in the end
)

// An Iterator walks the entries of a memtable that may go on growing. It sees
// at least what was there when it was positioned; of what comes later it may
// see some, and its user skips that by sequence number.
//
// It copies a run of neighbouring entries out of the tree and walks those
// without a lock. At the end of the run it looks up the entries next to the
// run's last one. Invariants:
//
//  1. run is ascending, and the tree held no entry between two of its
//     neighbours when it was copied.
//  2. at is in run unless run is empty, which means no position.
//  3. sizes[at] is the length of that entry's value; if measured is set, all
//     sizes are filled in.
type Iterator struct {
	m    *Memtable
	take func(entry) bool // collects into run; made once, as a closure costs an allocation

	run      []entry
	sizes    []uint32
	measured bool
	at       int
	want     int    // length of the next run
	chunks   chunks // resolves the addresses of run without a lock
	kv       base.KV
	touched  byte // keeps touch from being optimized away

	// Where run and sizes lie until a walk goes beyond the first run.
	firstEntries [firstRun]entry
	firstSizes   [firstRun]uint32
}

var _ base.Iterator = (*Iterator)(nil)

// NewIterator returns an iterator that stands nowhere. It holds no lock and
// may be forgotten without Close.
func (m *Memtable) NewIterator() base.Iterator {
	it := new(Iterator)
	it.Reset(m)
	return it
}

// Reset makes it an iterator over m that stands nowhere, in memory that it has.
// Requires: it is closed, or the zero value.
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

// SeekLT moves to the last entry whose user key is less than key. No entry
// has the trailer of its pivot, which sorts before all versions of key.
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

// after fetches the run behind the present one.
func (it *Iterator) after() *base.KV {
	if len(it.run) == 0 {
		return nil // at an end already, or nowhere
	}
	from := it.run[len(it.run)-1]
	from.trailer-- // the least that sorts behind it; 0 is never reached, as sequence numbers begin at 1
	it.growRun()
	locked := it.begin()
	it.m.ascend(from, it.take)
	return it.ascended(locked)
}

// before fetches the run in front of the present one.
func (it *Iterator) before() *base.KV {
	if len(it.run) == 0 {
		return nil
	}
	from := it.run[0]
	from.trailer++ // the greatest that sorts before it
	it.growRun()
	locked := it.begin()
	it.m.descend(from, it.take)
	return it.descended(locked)
}

// growRun makes runs longer, once a walk has shown that it goes on.
func (it *Iterator) growRun() {
	if cap(it.run) < maxRun {
		it.run, it.sizes = make([]entry, 0, maxRun), make([]uint32, maxRun)
	}
	it.want = min(it.want*4, maxRun)
}

// begin empties the run and takes the lock for filling it. The result is for
// runlock.
func (it *Iterator) begin() bool {
	locked := it.m.rlock()
	it.run = it.run[:0]
	it.chunks = it.m.arena.chunks
	return locked
}

// ascended and descended finish the filling of a run and move to its near end.
func (it *Iterator) ascended(locked bool) *base.KV {
	it.m.runlock(locked)
	return it.land(0)
}

func (it *Iterator) descended(locked bool) *base.KV {
	it.m.runlock(locked)
	slices.Reverse(it.run)
	return it.land(len(it.run) - 1)
}

// land moves to place at of a fresh run, or nowhere if the run is empty.
func (it *Iterator) land(at int) *base.KV {
	if len(it.run) == 0 {
		return nil
	}
	it.measured = false
	it.sizes[at] = it.run[at].valueSize(it.chunks)
	return it.stand(at)
}

// measure reads the lengths of the run's values, which lie beside the keys
// and values all over the arena. These loads do not wait for each other, so
// their cache misses overlap, and the steps that follow find the bytes near:
// 38 ns a step instead of 58 through 500,000 entries in random order. It
// waits for the first step, since a seek that is not followed by one would
// pay for the whole run (1,150 ns instead of 600).
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

// touch loads a byte of each cache line of the run's items, the first few of
// long ones, as measure does of the lengths, and for the same reason: a flush
// takes 202 ns an entry instead of 252. Not before a walk has gone on for a
// while: short ones would fetch much that they never look at.
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

// stand moves to place at of the run.
func (it *Iterator) stand(at int) *base.KV {
	it.at = at
	e := &it.run[at]
	it.kv.UserKey, it.kv.Value = it.chunks.item(e.addr(), e.keyLen(), it.sizes[at])
	it.kv.Trailer = e.trailer
	return &it.kv
}

// Err returns nil: memory does not fail.
func (it *Iterator) Err() error { return nil }

// Close lets go of the memtable, but not of the memory for Reset.
func (it *Iterator) Close() error {
	it.m, it.chunks, it.kv = nil, nil, base.KV{}
	it.run = it.run[:0]
	return nil
}
