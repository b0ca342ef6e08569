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
// run's last one. Invariant: run is ascending, and the tree held no entry
// between two of its neighbours when it was copied.
type Iterator struct {
	m    *Memtable
	take func(entry) bool // collects into run; made once, as a closure costs an allocation

	run    []entry
	at     int    // position in run; a position is valid if it is in run
	want   int    // length of the next run
	chunks chunks // resolves the addresses of run without a lock
	kv     base.KV

	small [firstRun]entry // the first run's place
}

var _ base.Iterator = (*Iterator)(nil)

// NewIterator returns an iterator that stands nowhere. It holds no lock and
// may be forgotten without Close.
func (m *Memtable) NewIterator() base.Iterator {
	it := &Iterator{m: m}
	it.run = it.small[:0]
	it.take = func(e entry) bool {
		it.run = append(it.run, e)
		return len(it.run) < it.want
	}
	return it
}

// First moves to the first entry.
func (it *Iterator) First() *base.KV {
	it.want = firstRun
	locked := it.begin()
	it.m.tree.Ascend(it.take)
	it.m.runlock(locked)
	return it.stand(0)
}

// Last moves to the last entry.
func (it *Iterator) Last() *base.KV {
	it.want = firstRun
	locked := it.begin()
	it.m.tree.Descend(it.take)
	it.m.runlock(locked)
	slices.Reverse(it.run)
	return it.stand(len(it.run) - 1)
}

// SeekGE moves to the first entry at or after (key, seq).
func (it *Iterator) SeekGE(key []byte, seq base.Seq) *base.KV {
	it.want = firstRun
	locked := it.begin()
	pivot := it.m.pivots.pivot(key, base.NewTrailer(seq, base.KindMax))
	it.m.tree.AscendGreaterOrEqual(pivot, it.take)
	it.m.pivots.release(pivot)
	it.m.runlock(locked)
	return it.stand(0)
}

// SeekLT moves to the last entry whose user key is less than key. No entry
// has the trailer of its pivot, which sorts before all versions of key.
func (it *Iterator) SeekLT(key []byte) *base.KV {
	it.want = firstRun
	locked := it.begin()
	pivot := it.m.pivots.pivot(key, base.NewTrailer(base.MaxSeq, base.KindMax))
	it.m.tree.DescendLessOrEqual(pivot, it.take)
	it.m.pivots.release(pivot)
	it.m.runlock(locked)
	slices.Reverse(it.run)
	return it.stand(len(it.run) - 1)
}

// Next moves one entry forward.
func (it *Iterator) Next() *base.KV {
	if at := it.at + 1; at < len(it.run) {
		return it.stand(at)
	}
	return it.after()
}

// Prev moves one entry back.
func (it *Iterator) Prev() *base.KV {
	if at := it.at - 1; at >= 0 {
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
	it.m.tree.AscendGreaterOrEqual(from, it.take)
	it.m.runlock(locked)
	return it.stand(0)
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
	it.m.tree.DescendLessOrEqual(from, it.take)
	it.m.runlock(locked)
	slices.Reverse(it.run)
	return it.stand(len(it.run) - 1)
}

// growRun makes runs longer, once a walk has shown that it goes on.
func (it *Iterator) growRun() {
	if it.want == firstRun && cap(it.run) == firstRun {
		it.run = make([]entry, 0, maxRun)
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

// stand moves to place at of the run, or to no place if the run is empty.
func (it *Iterator) stand(at int) *base.KV {
	if uint(at) >= uint(len(it.run)) {
		return nil
	}
	it.at = at
	e := &it.run[at]
	addr, k := e.addr(), e.keyLen()
	it.kv.UserKey = it.chunks.key(addr, k)
	it.kv.Trailer = e.trailer
	it.kv.Value = it.chunks.value(addr, k)
	return &it.kv
}

// Err returns nil: memory does not fail.
func (it *Iterator) Err() error { return nil }

// Close lets go of the memtable.
func (it *Iterator) Close() error {
	*it = Iterator{}
	return nil
}
