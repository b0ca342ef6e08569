package memqueue

import (
	"slices"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/memtable"
)

// A Replay puts the batches of logs back into memtables, in the order of writing. It is for one
// goroutine at a time.
type Replay struct {
	Mem  *memtable.Memtable // takes the next batch
	Imms []*Immutable       // newest first

	queue          *Queue
	oldest, newest base.FileNum // logs with writes of Mem
}

// NewReplay returns a Replay that goes on with mem, and has no other memtables.
func (q *Queue) NewReplay(mem *memtable.Memtable) Replay { return Replay{Mem: mem, queue: q} }

// Add has apply add a batch of log num to the memtable, or to a new one if that is full. With
// perLog, each log has a memtable of its own: it can go as soon as tables have its writes. Mostly
// that is for the whole log at once, since the writer begins another log with each memtable.
func (r *Replay) Add(num base.FileNum, perLog bool, apply func(mem *memtable.Memtable)) {
	if !r.Mem.Empty() && (perLog && r.newest != num || r.Mem.Taken() >= r.queue.Size && r.Mem.Taken() >= r.room()) {
		r.Freeze()
	}
	if r.Mem.Empty() {
		r.oldest = num
	}
	r.Mem.BeginWrite()
	apply(r.Mem)
	r.Mem.EndWrite()
	r.newest = num
}

// Freeze makes the memtable immutable, and begins another.
func (r *Replay) Freeze() {
	r.Mem.Freeze()
	r.Imms = append([]*Immutable{{Mem: r.Mem, Log: r.oldest, newest: r.newest}}, r.Imms...)
	r.Mem = r.queue.NewMemtableOf(r.room())
}

// room returns how many bytes the memtable may have: half of what the immutable ones have, if that
// is more than Size. So logs that were written with a larger MemtableSize make few
// memtables. All are in memory together anyway, but each is flushed by itself.
func (r *Replay) room() int64 {
	sum := int64(0)
	for _, imm := range r.Imms {
		sum += imm.Mem.Taken()
	}
	return max(r.queue.Size, sum/2)
}

// Forget gives up the memtables of which gone says so. newest is the newest log with writes of mem.
func (r *Replay) Forget(gone func(mem *memtable.Memtable, newest base.FileNum) bool) {
	r.Imms = slices.DeleteFunc(slices.Clone(r.Imms), func(imm *Immutable) bool {
		is := gone(imm.Mem, imm.newest)
		if is {
			r.giveUp(imm.Mem)
		}
		return is
	})
	if !r.Mem.Empty() && gone(r.Mem, r.newest) {
		r.giveUp(r.Mem)
		r.Mem = r.queue.NewMemtable()
	}
}

// Hide makes sure that no reader finds what comes next: it begins a memtable that is not in the
// current view.
func (r *Replay) Hide() {
	switch {
	case r.Mem != r.queue.View().Mem:
	case r.Mem.Empty():
		r.Mem = r.queue.NewMemtable() // ReleaseReplaced gives up the old one
	default:
		r.Freeze()
	}
}

// StartOver gives up all memtables.
func (r *Replay) StartOver() {
	for _, imm := range r.Imms {
		r.giveUp(imm.Mem)
	}
	r.giveUp(r.Mem)
	r.Mem, r.Imms = r.queue.NewMemtable(), nil
}

// giveUp releases a memtable, unless readers have it: then ReleaseReplaced does.
func (r *Replay) giveUp(mem *memtable.Memtable) {
	if !r.queue.View().Has(mem) {
		mem.Release()
	}
}

// Changed reports whether the memtables are others than those of the current view.
func (r *Replay) Changed() bool {
	v := r.queue.View()
	return r.Mem != v.Mem || !slices.Equal(r.Imms, v.Imms)
}

// ReleaseReplaced releases the memtables of old, which the current view has replaced, unless it has
// them too. Iterators that have pinned old go on.
func (q *Queue) ReleaseReplaced(old *View) {
	for mem := range old.Memtables() {
		if !q.View().Has(mem) {
			mem.Freeze()
			mem.Release()
		}
	}
	q.Unpin(old)
}

// Show makes the memtables of a Replay those of the first view. Requires: no
// other goroutine uses the store yet.
func (q *Queue) Show(r *Replay) {
	q.Open(NewView(r.Mem, r.Imms, q.View().Version))
	if !r.Mem.Empty() {
		q.memLog = r.oldest
	}
}
