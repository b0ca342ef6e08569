package shale

import (
	"sync"
	"sync/atomic"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/tree"
	"github.com/shaledb/shale/memtable"
)

// A view is all that one read looks at: the memtables and a version of the
// tables. It is immutable; a newer one replaces it as a whole, behind one
// atomic pointer. A reader loads the view first and the visible sequence
// number second: so the view holds every version that the number asks for,
// although flushes and compactions drop what no snapshot protects.
//
// A lookup holds no reference on the tables: one whose file has gone meanwhile
// answers errGone, and the lookup then starts again with the next view. So
// it does when a memtable has gone that may have its key, which it pins while it
// reads it. Iterators, compactions and checkpoints, which take longer, hold the
// version, and iterators the memtables too.
type view struct {
	mem  *memtable.Memtable
	imms []*immutable // newest first
	*tree.Version
}

// An immutable is a memtable that takes no more writes and waits to be
// flushed, with the log that holds its writes.
type immutable struct {
	mem *memtable.Memtable
	// log is the oldest log that has writes of this memtable.
	log base.FileNum
}

// acquireView returns the current view with a reference on its version, for
// db.tree.Release, or nil if the store is closed.
func (db *DB) acquireView() *view {
	for {
		v := db.view.Load()
		if v == nil || v.Version.Acquire() {
			return v
		}
	}
}

// acquireAll is acquireView for those who read the memtables too, which it pins
// for releaseAll.
func (db *DB) acquireAll() *view {
	for {
		v := db.acquireView()
		if v == nil || v.pinMemtables() {
			return v
		}
		db.tree.Release(v.Version) // a flush finished meanwhile: its table is in the next view
	}
}

// releaseAll undoes acquireAll.
func (db *DB) releaseAll(v *view) {
	v.unpinMemtables(len(v.imms))
	db.tree.Release(v.Version)
}

// pinMemtables keeps the memory of all memtables, or of none if one has gone.
func (v *view) pinMemtables() bool {
	if !v.mem.Pin() {
		return false
	}
	for i, imm := range v.imms {
		if !imm.mem.Pin() {
			v.unpinMemtables(i)
			return false
		}
	}
	return true
}

// unpinMemtables lets go of the memtable and the first n immutable ones.
func (v *view) unpinMemtables(n int) {
	v.mem.Unpin()
	for _, imm := range v.imms[:n] {
		imm.mem.Unpin()
	}
}

// releaseMemtables is for a store that is closed: readers that are under way
// still hold what they read.
func (v *view) releaseMemtables() {
	v.mem.Release()
	for _, imm := range v.imms {
		imm.mem.Release()
	}
}

// A readState owns what reads see: the current view, which they load without a lock. It
// is nil once the store is closed.
type readState struct {
	atomic.Pointer[view]

	// mu makes changes of the view one at a time. No other lock is taken under it but that
	// of the snapshots.
	mu     sync.Mutex
	memLog base.FileNum // the oldest log with writes of the memtable; 0: it is empty and has no log yet
}

// open makes v the first view.
func (s *readState) open(v *view) { s.Store(v) }

// freeze makes the memtable immutable, unless it is empty, and next the memtable. It
// reports whether it did. Requires: nobody writes to the memtable.
func (s *readState) freeze(next func() *memtable.Memtable) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.Load()
	if old.mem.Empty() {
		return false
	}
	old.mem.Freeze()
	imms := append([]*immutable{{mem: old.mem, log: s.memLog}}, old.imms...)
	s.Store(&view{mem: next(), imms: imms, Version: old.Version})
	s.memLog = 0
	return true
}

// setLog says which is the oldest log with writes of the memtable.
func (s *readState) setLog(num base.FileNum) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.memLog = num
}

// logAfter returns the oldest log that is needed once imm, the oldest immutable memtable,
// is in tables.
func (s *readState) logAfter(imm *immutable) base.FileNum {
	s.mu.Lock()
	defer s.mu.Unlock()
	log := s.memLog
	if imms := s.Load().imms; len(imms) > 1 {
		log = imms[len(imms)-2].log
	}
	if log == 0 {
		return imm.log // the next memtable is empty and has no log yet: see DB.replaceLog
	}
	return log
}

// replace makes next the version that reads see. change, if not nil, changes the
// new view further; store makes it the current one.
func (s *readState) replace(next *tree.Version, change func(*view), store func(*view)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v := &view{Version: next}
	if cur := s.Load(); cur != nil {
		v.mem, v.imms = cur.mem, cur.imms
	}
	if change != nil {
		change(v)
	}
	store(v)
}

// close ends all reads to come, and returns the last view.
func (s *readState) close() *view {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.Swap(nil)
}
