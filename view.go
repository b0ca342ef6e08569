package shale

import (
	"context"
	"errors"
	"io/fs"
	"iter"
	"sync/atomic"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/lockorder"
	"github.com/shaledb/shale/internal/tree"
	"github.com/shaledb/shale/memtable"
)

// A view is all that one read looks at: the memtables and a version of the tables. It is
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
// Compactions and checkpoints take longer, so they hold the version. Iterators pin the view, and
// with it the version and the memtables.
type view struct {
	mem  *memtable.Memtable
	imms []*immutable // newest first
	*tree.Version

	// pins counts iterators. Its owner's pin means that the view is the current one, whose
	// version and memtables the store itself holds. When the view is replaced, it takes a
	// reference and pins of its own, which releaseAll gives back with the last pin. So an
	// iterator writes to one word, and not to those of the version and of each memtable.
	pins *memtable.Pins
}

// newView returns a view of which there are no readers yet.
func newView(mem *memtable.Memtable, imms []*immutable, v *tree.Version) *view {
	return &view{mem: mem, imms: imms, Version: v, pins: memtable.NewPins()}
}

// An immutable is a memtable that takes no more writes and waits to be flushed. Its writes are
// in logs, which are needed until it is in tables.
type immutable struct {
	mem *memtable.Memtable
	// log is the oldest log that has writes of this memtable. newest is the newest one, and known
	// only of memtables that were made of logs.
	log, newest base.FileNum
}

// memtables yields all memtables of v, newest first.
func (v *view) memtables() iter.Seq[*memtable.Memtable] {
	return func(yield func(*memtable.Memtable) bool) {
		if !yield(v.mem) {
			return
		}
		for _, imm := range v.imms {
			if !yield(imm.mem) {
				return
			}
		}
	}
}

// has reports whether mem is one of the memtables of v.
func (v *view) has(mem *memtable.Memtable) bool {
	for m := range v.memtables() {
		if m == mem {
			return true
		}
	}
	return false
}

// acquireView returns the current view with a reference on its version, or nil if the store is
// closed. The caller gives the reference back with db.tree.Release. The version may be replaced
// and released between the two steps; then the current view is another one, and is tried next.
func (db *DB) acquireView() *view {
	for {
		v := db.view.Load()
		if v == nil || v.Version.Acquire() {
			return v
		}
	}
}

// acquireAll is acquireView for readers that read the memtables too. It pins the view. The caller
// gives the pin back with releaseAll.
func (db *DB) acquireAll() *view {
	for {
		v := db.view.Load()
		if v == nil || v.pins.Pin() {
			return v
		} // else v was replaced meanwhile, and its readers have gone
	}
}

// releaseAll undoes acquireAll. It also takes the owner's pin of a view that was replaced.
// Requires: the caller uses no slice of the memtables any more, and holds no lock of the tree or
// of the view; v was replaced, or the caller has pinned it.
func (db *DB) releaseAll(v *view) {
	if v.pins.Unpin() {
		v.mem.Unpin()
		for _, imm := range v.imms {
			imm.mem.Unpin()
		}
		db.tree.Release(v.Version)
	}
}

// freezeMemtable makes the memtable immutable, unless it is empty. Requires: as for
// readState.freeze; the caller holds no lock of the tree or of the view.
func (db *DB) freezeMemtable() {
	if old := db.view.freeze(db.newMemtable); old != nil {
		db.releaseAll(old)
	}
}

// hold takes what releaseAll gives back with the last pin. Requires: v is the current view, and
// readState.mu is held; so nobody has given up the version or a memtable of it yet, and no pin
// fails.
func (v *view) hold() {
	v.Version.Acquire()
	v.mem.Pin()
	for _, imm := range v.imms {
		imm.mem.Pin()
	}
}

// releaseMemtables gives up the owner's pins, once, when the store is closed. Readers that are
// under way have pins of their own, and the memory stays until the last of them is done.
func (v *view) releaseMemtables() {
	v.mem.Release()
	for _, imm := range v.imms {
		imm.mem.Release()
	}
}

// A readState owns what reads see: the current view, which they load without a lock. It is nil
// once the store is closed.
//
// Once the store is open, the view changes in three ways: the leader of the commit queue makes
// the memtable immutable (freeze), an edit of the tables brings the next version (begin and end),
// and Close takes the view away (close). That of a read-only handle changes by Advance, which calls
// begin and end. The first two make a new view from the current one. They do
// so under mu, so that neither undoes a change of the other. All three return the view before,
// which holds what its readers need. The caller passes it to releaseAll when it has no lock.
type readState struct {
	atomic.Pointer[view]

	// mu makes changes of the view one at a time, and guards memLog. Readers never take it.
	// Under it only commit.Snapshots.mu is taken, and locks that come later in the order at DB.
	mu     lockorder.Mutex[lockorder.View]
	memLog base.FileNum // the oldest log with writes of the memtable; 0: it is empty and has no log yet
}

// open makes v the first view. Requires: no other goroutine uses the store yet.
func (s *readState) open(v *view) {
	v.share()
	s.Store(v)
}

// share tells the memtables that iterators pin them by the pins of v, which becomes the current
// view. Requires: readState.mu is held, or no other goroutine uses the store yet.
func (v *view) share() {
	v.mem.PinnedBy(v.pins)
	for _, imm := range v.imms {
		imm.mem.PinnedBy(v.pins)
	}
}

// freeze makes the memtable immutable, unless it is empty, and puts the one that next returns
// in its place. It returns the view before, or nil if the memtable is empty. The new memtable has
// no log until setLog. Requires: the caller leads the commit queue, or the store is being opened,
// so that nobody writes to the memtable.
func (s *readState) freeze(next func() *memtable.Memtable) (old *view) {
	s.mu.Lock()
	defer s.mu.Unlock()
	old = s.Load()
	if old.mem.Empty() {
		return nil
	}
	old.mem.Freeze()
	imms := append([]*immutable{{mem: old.mem, log: s.memLog}}, old.imms...)
	v := newView(next(), imms, old.Version)
	v.share()
	old.hold()
	s.Store(v)
	s.memLog = 0
	return old
}

// setLog notes that num is the oldest log with writes of the memtable, or will be. Requires: as
// for freeze.
func (s *readState) setLog(num base.FileNum) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.memLog = num
}

// logAfter returns the oldest log that is needed once imm, the oldest immutable memtable, is in
// tables. A rotation does not make the answer wrong: a memtable that becomes immutable takes its
// log along.
func (s *readState) logAfter(imm *immutable) base.FileNum {
	s.mu.Lock()
	defer s.mu.Unlock()
	log := s.memLog
	if imms := s.Load().imms; len(imms) > 1 {
		log = imms[len(imms)-2].log
	}
	// The next memtable has no log yet: replaceLog begins one only after this flush, and a rotation
	// may be between freeze and setLog. The number of imm's own log is safe then. It keeps logs for
	// longer than is needed, until the next flush or ingestion. Replaying all of them does no harm.
	if log == 0 {
		return imm.log
	}
	return log
}

// begin returns a view of next and of the memtables of the current view. The caller may change
// it, and makes it the current one with end: so a table comes and its memtable goes in one step for
// readers. In between no other goroutine changes the view. Requires: the store is not closed.
func (s *readState) begin(next *tree.Version) *view {
	s.mu.Lock()
	old := s.Load()
	return newView(old.mem, old.imms, next)
}

// end makes v the current view, and returns the view before.
func (s *readState) end(v *view) (old *view) {
	defer s.mu.Unlock()
	v.share()
	old = s.Load()
	old.hold()
	s.Store(v)
	return old
}

// close ends all reads to come, which find a nil view, and returns the last view.
func (s *readState) close() (last *view) {
	s.mu.Lock()
	defer s.mu.Unlock()
	last = s.Load()
	last.hold()
	s.Store(nil)
	return last
}

// installed follows each change of the tables, which takes these steps. Flushes, compactions,
// ingestions and rebuilt filters make one each.
//
//  1. Tree.Begin: one change is made at a time.
//  2. Change.Log makes the edit durable in the manifest. The tables that it adds are durable
//     before. If that fails, the view stays as it is, but the manifest may have the edit: the
//     caller closes the tables and leaves their files to the tree (sink.discard).
//  3. readState.begin and end replace the view.
//  4. installed ends the change, gives up the view before, and wakes those that wait for a change
//     of the tables. Change.End alone gives up what has failed before that.
//
// Requires: the caller holds no lock of the tree or of the view.
func (db *DB) installed(e *tree.Change, old *view) {
	e.End()
	db.releaseAll(old)
	db.scheduler.Level0Changed(e.Old.Meta, e.Next.Meta)
	db.changes.broadcast()
	db.filters.FitSoon(e.Next)
}

// dropFile removes a file that nothing needs any more, and what the store remembers of it. The
// deleter calls it, on its own goroutine while the store is open. A lookup with an older view may
// still come to the table: it gets filecache.ErrGone and takes the next view. If the removal
// fails, the next Open removes the file. A store that is read-only or closed keeps the file: it
// only is not needed by this handle.
func (db *DB) dropFile(f tree.Obsolete) {
	if db.tree.Retire(f) { // a version, whose files come next if nothing else needs them
		return
	}
	closed := db.view.Load() == nil
	if f.Table != nil {
		f.Table.Close()
	}
	if f.Table != nil && !closed { // Close gives up all tables at once, and the caches as a whole
		db.cache.EvictFile(uint64(f.Table.Meta.Num))
		db.falsePositives.Forget(uint64(f.Table.Meta.Num))
		db.scheduler.TakeBack(f.Table.Meta.Num)
	}
	f.Sidecar.Close()
	if db.opts.ReadOnly || closed {
		return
	}
	if err := db.fs.Remove(db.path(f.Name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		db.events.emit(Event{Kind: EventBackgroundError, Reason: "remove " + f.Name, Err: err})
	}
}

// dropFileAnyhow is dropFile, also if the file system panics.
func (db *DB) dropFileAnyhow(f tree.Obsolete) {
	if err := base.Survive(func() error { db.dropFile(f); return nil }); err != nil {
		db.backgroundError("remove "+f.Name, err)
	}
}

// awaitDeletions waits until the files that nothing needs any more are removed, or until ctx is
// done or the store is closing. Requires: the caller holds neither changes.mu nor a later lock.
func (db *DB) awaitDeletions(ctx context.Context) {
	db.deleter.Run()
	db.changes.await(ctx, func() bool { return db.deleter.Idle() || db.closing() || ctx.Err() != nil })
}

// removeFiles has the deleter remove files that nothing needs any more, and does not wait for it.
func (db *DB) removeFiles(names ...string) {
	db.obsolete(names...)
	db.deleter.Run()
}

// obsolete is removeFiles for a caller that holds locks. It runs the deleter afterwards.
func (db *DB) obsolete(names ...string) {
	for _, name := range names {
		db.deleter.Add(tree.Obsolete{Name: name})
	}
}
