// Package memqueue owns the memtables of a store: the one that takes writes, those that wait to be
// flushed, the logs that each of them needs, and the view in which readers find them next to the
// tables.
package memqueue

import (
	"fmt"
	"sync/atomic"

	"github.com/shaledb/shale/bloom"
	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/health"
	"github.com/shaledb/shale/internal/lockorder"
	"github.com/shaledb/shale/internal/logset"
	"github.com/shaledb/shale/internal/tree"
	"github.com/shaledb/shale/memtable"
	"github.com/shaledb/shale/wal"
)

// A Queue owns what reads see: the current view, which they load without a lock.
//
// Once the store is open, the view changes in three ways: the leader of the commit queue makes
// the memtable immutable (Freeze), an edit of the tables brings the next version (Begin and End),
// and Close takes the view away. That of a read-only handle changes by Advance, which calls
// Begin and End. The first two make a new view from the current one. They do
// so under mu, so that neither undoes a change of the other. The view before holds what its
// readers need. The caller passes it to Unpin when it has no lock.
type Queue struct {
	Options
	flushing
	pool *memtable.Pool

	view atomic.Pointer[View] // nil once the store is closed

	// mu makes changes of the view one at a time, and guards memLog. Readers never take it.
	// Under it only commit.Snapshots.mu is taken, and locks that come later in the order at DB.
	mu     lockorder.Mutex[lockorder.View]
	memLog base.FileNum // the oldest log with writes of the memtable; 0: it is empty and has no log yet
}

// Options say what memtables are like, and whose versions the views hold.
type Options struct {
	Size   int64 // of a memtable, in bytes
	Tree   *tree.Tree
	Logs   *logset.Set
	Health *health.Health
	Hasher *bloom.Hasher // of memtables: read whenever one is made
}

// Init prepares the zero Queue for use. It is called once.
func (q *Queue) Init(o Options) {
	q.Options, q.pool, q.wake = o, memtable.NewPool(o.Size), make(chan struct{}, 1)
}

// NewMemtable returns an empty memtable. Its memory is that of memtables that were flushed, as
// far as there is some.
func (q *Queue) NewMemtable() *memtable.Memtable { return q.NewMemtableOf(q.Size) }

// NewMemtableOf is NewMemtable for a number of bytes.
func (q *Queue) NewMemtableOf(bytes int64) *memtable.Memtable {
	return memtable.New(memtable.Options{Size: bytes, Hasher: *q.Hasher, Pool: q.pool})
}

// View returns the current view; nil: the store is closed.
func (q *Queue) View() *View { return q.view.Load() }

// Current returns the memtable that takes writes. Requires: the store is not closed.
func (q *Queue) Current() *memtable.Memtable { return q.View().Mem }

// Acquire returns the current view with a reference on its version, or nil if the store is
// closed. The caller gives the reference back with Tree.Release. The version may be replaced
// and released between the two steps; then the current view is another one, and is tried next.
func (q *Queue) Acquire() *View {
	for {
		v := q.view.Load()
		if v == nil || v.Version.Acquire() {
			return v
		}
	}
}

// Pin is Acquire for readers that read the memtables too. It pins the view. The caller gives the
// pin back with Unpin.
func (q *Queue) Pin() *View {
	for {
		v := q.view.Load()
		if v == nil || v.pins.Pin() {
			return v
		} // else v was replaced meanwhile, and its readers have gone
	}
}

// Unpin undoes Pin. It also takes the owner's pin of a view that was replaced. Requires: the
// caller uses no slice of the memtables any more, and holds no lock of the tree or of the queue;
// v was replaced, or the caller has pinned it.
func (q *Queue) Unpin(v *View) {
	if v.pins.Unpin() {
		for mem := range v.Memtables() {
			mem.Unpin()
		}
		q.Tree.Release(v.Version)
	}
}

// Open makes v the first view. Requires: no other goroutine uses the store yet.
func (q *Queue) Open(v *View) {
	v.share()
	q.view.Store(v)
}

// Freeze makes the memtable immutable, unless it is empty, and begins another, which has no log
// until SetLog. Requires: the caller leads the commit queue, or the store is being opened, so that
// nobody writes to the memtable; it holds no lock of the tree.
func (q *Queue) Freeze() {
	if old := q.freeze(); old != nil {
		q.Unpin(old)
	}
}

// freeze is Freeze, and returns the view before, or nil if the memtable is empty.
func (q *Queue) freeze() (old *View) {
	q.mu.Lock()
	defer q.mu.Unlock()
	old = q.view.Load()
	if old.Mem.Empty() {
		return nil
	}
	old.Mem.Freeze()
	q.showLocked(NewView(q.NewMemtable(), append([]*Immutable{{Mem: old.Mem, Log: q.memLog}}, old.Imms...), old.Version))
	q.memLog = 0
	return old
}

// showLocked makes v the current view, and returns the view before. Requires: mu is held.
func (q *Queue) showLocked(v *View) (old *View) {
	v.share()
	old = q.view.Load()
	old.hold()
	q.view.Store(v)
	return old
}

// Rotate seals the log, begins the next one of the store, makes the memtable immutable, begins
// another, and wakes the flusher. last is the last sequence number that was given out. If the new
// log can't be made, for lack of room above all, writes are refused and nothing is lost. Requires:
// the caller leads the commit queue.
func (q *Queue) Rotate(storeID uint64, last base.Seq) error {
	old, num := q.Logs.Current(), q.Logs.CurrentNum()
	// The old log is sealed and synced before anything in the new one can be acknowledged.
	// So no crash leaves a hole between them.
	sealed, err := q.Logs.Seal(last)
	if err != nil {
		return q.Health.LogFailed(fmt.Errorf("shale: seal log: %w", err))
	}
	if err := q.Logs.Begin(wal.Header{StoreID: storeID, Prev: num, PrevLen: sealed.Length, PrevSeq: sealed.LastSeq}); err != nil {
		return q.Health.Refuse(fmt.Errorf("shale: begin log: %w", err), true)
	}
	if err := old.Close(); err != nil {
		return q.Health.LogFailed(fmt.Errorf("shale: close log: %w", err))
	}
	// Between these lines a flush may ask which logs are needed (LogAfter). It finds that the new
	// memtable has no log yet, and keeps one log too many.
	q.Freeze()
	q.SetLog(q.Logs.Rotated())
	q.WakeFlusher()
	return nil
}

// SetLog notes that num is the oldest log with writes of the memtable, or will be. Requires: as
// for Freeze.
func (q *Queue) SetLog(num base.FileNum) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.memLog = num
}

// LogAfter returns the oldest log that is needed once imm, the oldest immutable memtable, is in
// tables. A rotation does not make the answer wrong: a memtable that becomes immutable takes its
// log along.
func (q *Queue) LogAfter(imm *Immutable) base.FileNum {
	q.mu.Lock()
	defer q.mu.Unlock()
	log := q.memLog
	if imms := q.view.Load().Imms; len(imms) > 1 {
		log = imms[len(imms)-2].Log
	}
	// The next memtable has no log yet: replaceLog begins one only after this flush, and a rotation
	// may be between Freeze and SetLog. The number of imm's own log is safe then. It keeps logs for
	// longer than is needed, until the next flush or ingestion. Replaying all of them does no harm.
	if log == 0 {
		return imm.Log
	}
	return log
}

// Begin returns a view of next and of the memtables of the current view. The caller may change
// it, and makes it the current one with End: so a table comes and its memtable goes in one step for
// readers. In between no other goroutine changes the view. Requires: the store is not closed.
func (q *Queue) Begin(next *tree.Version) *View {
	q.mu.Lock()
	old := q.view.Load()
	return NewView(old.Mem, old.Imms, next)
}

// End makes v the current view, and returns the view before.
func (q *Queue) End(v *View) (old *View) {
	defer q.mu.Unlock()
	return q.showLocked(v)
}

// Close ends all reads to come, which find no view, and gives up the memtables, and the tables of
// the last view. Readers that are under way have pins of their own, and the memory stays until the
// last of them is done.
func (q *Queue) Close() {
	q.mu.Lock()
	last := q.view.Load()
	last.hold()
	q.view.Store(nil)
	q.mu.Unlock()

	q.Tree.Close()
	q.Tree.Release(last.Version)
	for mem := range last.Memtables() {
		mem.Release()
	}
	q.Unpin(last)
	q.pool.Close()
}
