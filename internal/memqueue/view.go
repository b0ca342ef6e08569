package memqueue

import (
	"iter"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/spans"
	"github.com/shaledb/shale/internal/tree"
	"github.com/shaledb/shale/memtable"
)

// A View is all that one read looks at: the memtables and a version of the tables. It is
// immutable. A newer view replaces it as a whole, behind one atomic pointer.
//
// A reader loads the view first and the visible sequence number second. Flushes and compactions
// keep, besides what snapshots see, only the newest version of each key. If the number came
// first, a key could be overwritten, and its old version dropped, before the view is loaded: the
// reader would find only a version that is too new for its number. In the right order, if the
// memtable becomes immutable between the two loads, the reader does not see the writes to the
// next memtable: it sees the state of the moment of the change, which is one state too.
//
// A lookup holds no reference on the tables. If the file of one is gone meanwhile, the read gets
// filecache.ErrGone, and the lookup starts again with the next view. A memtable whose filter
// says maybe is pinned while it is read. If it is gone, the lookup starts again as well.
// Compactions and checkpoints take longer, so they hold the version (Queue.Acquire). Iterators
// pin the view, and with it the version and the memtables (Queue.Pin).
type View struct {
	Mem  *memtable.Memtable
	Imms []*Immutable // newest first
	*tree.Version

	// pins counts iterators. Its owner's pin means that the view is the current one, whose
	// version and memtables the store itself holds. When the view is replaced, it takes a
	// reference and pins of its own, which Queue.Unpin gives back with the last pin. So an
	// iterator writes to one word, and not to those of the version and of each memtable.
	pins *memtable.Pins
}

// NewView returns a view of which there are no readers yet.
func NewView(mem *memtable.Memtable, imms []*Immutable, v *tree.Version) *View {
	return &View{Mem: mem, Imms: imms, Version: v, pins: memtable.NewPins()}
}

// An Immutable is a memtable that takes no more writes and waits to be flushed. Its writes are
// in logs, which are needed until it is in tables.
type Immutable struct {
	Mem *memtable.Memtable
	// Log is the oldest log that has writes of this memtable. newest is the newest one, and known
	// only of memtables that were made of logs.
	Log, newest base.FileNum
}

// Memtables yields all memtables of v, newest first.
func (v *View) Memtables() iter.Seq[*memtable.Memtable] {
	return func(yield func(*memtable.Memtable) bool) {
		if !yield(v.Mem) {
			return
		}
		for _, imm := range v.Imms {
			if !yield(imm.Mem) {
				return
			}
		}
	}
}

// Cover returns the greatest number up to seq of the range deletes that cover key, or 0: an entry of a lower number is
// deleted. Requires: seq was loaded before the call. So no range delete that a reader at seq sees is missed.
func (v *View) Cover(key []byte, seq base.Seq) base.Seq {
	at := v.Mem.Spans().Cover(key, seq)
	for _, imm := range v.Imms {
		at = max(at, imm.Mem.Spans().Cover(key, seq))
	}
	return max(at, v.Meta.Spans.Cover(key, seq))
}

// HasSpans reports whether there are range deletes.
func (v *View) HasSpans() bool {
	for mem := range v.Memtables() {
		if !mem.Spans().Empty() {
			return true
		}
	}
	return !v.Meta.Spans.Empty()
}

// Spans adds the range deletes of v to f.
func (v *View) Spans(f *spans.Finder) {
	for mem := range v.Memtables() {
		f.Add(mem.Spans())
	}
	f.Add(v.Meta.Spans)
}

// Has reports whether mem is one of the memtables of v.
func (v *View) Has(mem *memtable.Memtable) bool {
	for m := range v.Memtables() {
		if m == mem {
			return true
		}
	}
	return false
}

// Oldest returns the next memtable to be flushed, or nil.
func (v *View) Oldest() *Immutable {
	if v == nil || len(v.Imms) == 0 {
		return nil
	}
	return v.Imms[len(v.Imms)-1]
}

// TryPin pins v, unless it was replaced and its readers have gone. Queue.Unpin gives the pin back.
func (v *View) TryPin() bool { return v.pins.Pin() }

// Pinned reports whether v has readers that have pinned it.
func (v *View) Pinned() bool { return !v.pins.Alone() }

// hold takes what Unpin gives back with the last pin. Requires: v is the current view, and
// Queue.mu is held; so nobody has given up the version or a memtable of it yet, and no pin
// fails.
func (v *View) hold() {
	v.Version.Acquire()
	for mem := range v.Memtables() {
		mem.Pin()
	}
}

// share tells the memtables that iterators pin them by the pins of v, which becomes the current
// view. Requires: Queue.mu is held, or no other goroutine uses the store yet.
func (v *View) share() {
	for mem := range v.Memtables() {
		mem.PinnedBy(v.pins)
	}
}
