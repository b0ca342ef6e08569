// Package residency decides which filters and indexes of a store's tables are in memory.
package residency

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/lockorder"
	"github.com/shaledb/shale/internal/tree"
	"github.com/shaledb/shale/sstable"
)

// Filters keeps the filters of a store's tables in memory, within a budget.
// Filters that exceed the budget are released. They are read again from
// their files when there is room. All methods may be called concurrently.
//
// It does the same with the indexes of the tables, which have a limit of their own
// (indexes.go). And it reads what Open has left for later. A lookup that is faster
// loads what it needs itself, in place of Loop. What could not be read, or has no
// room, a lookup does without: a filter that is not in memory means maybe, and an
// index is read through the cache.
//
// A filter with many bits a key has two units. The first unit alone is a
// filter of the same keys with more false positives, so it is useful to
// release only the second. After each change of the tables this happens:
//
//  1. FitSoon releases filters if the new tables' filters exceed the budget.
//  2. Loop calls Adjust, which checks that again and reads back what fits.
type Filters struct {
	env  Env
	wake chan struct{} // to Loop: the tables have changed
	// loaded is closed once Loop has read what Open has left for later. It
	// is constant after Open; nil: Open has left nothing.
	loaded    chan struct{}
	endOfLoad sync.Once
	mu        lockorder.Mutex[lockorder.Filters] // held while filters and indexes are released or read

	// unread has the tables whose filters, and those whose indexes, could not be read, each with
	// the round in which that was tried last. A round ends when nothing is left that was not
	// tried in it. Guarded by mu.
	unread [2]map[*tree.Table]uint64
	round  uint64

	rebuilding chan struct{} // holds a token while a caller of BeginRebuild rebuilds filters
}

// An Env is what Filters need from the store.
type Env struct {
	Wanted     bool                           // otherwise no filter is read
	Limited    bool                           // the budget is strict: whole filters may be released, and not only second units
	Budget     func(keys uint64) int64        // bytes for all filters of a store with this number of keys
	Closing    func() bool                    // reports whether Close has begun
	Acquire    func() *tree.Version           // the current version with a reference; nil: the store is closed
	Release    func(v *tree.Version)          // gives the reference back
	Unreadable func(t *tree.Table, err error) // reports that t's filter can't be read, for good or for now
	Delay      func(n int) time.Duration      // how long to wait after the n-th failure in a row

	IndexLimit      int64                          // bytes for all indexes in memory; 0: no limit
	UnreadableIndex func(t *tree.Table, err error) // reports that t's index can't be read
}

// New returns a Filters that has not seen a version yet.
func New(env Env) *Filters {
	return &Filters{env: env, unread: [2]map[*tree.Table]uint64{{}, {}}, round: 1, wake: make(chan struct{}, 1), rebuilding: make(chan struct{}, 1)}
}

// Loop calls Adjust whenever the tables have changed, until ctx is done. While something could not
// be read, it also does so again and again, later each time.
func (f *Filters) Loop(ctx context.Context) {
	var retry <-chan time.Time // nil: nothing is to be tried again
	for failed := 0; ; {
		select {
		case <-ctx.Done():
			return
		case <-f.wake:
		case <-retry:
		}
		f.beginRound()
		for !f.env.Closing() && f.adjustCurrent() {
			continue
		}
		f.leaveNothing()
		if f.loaded != nil && !f.env.Closing() {
			f.endOfLoad.Do(func() { close(f.loaded) })
		}
		if f.endRound() {
			failed++
			retry = time.After(f.env.Delay(failed))
		} else {
			failed, retry = 0, nil
		}
	}
}

// adjustCurrent calls Adjust for the current version, and reports whether there is more to
// read. Between two calls no version is held, so that files which compactions replace can go.
func (f *Filters) adjustCurrent() (more bool) {
	v := f.env.Acquire()
	if v == nil {
		return false
	}
	defer f.env.Release(v)
	return f.adjust(v)
}

// leaveNothing ends what lookups load by themselves, after Loop has read what there is room for, and releases
// what they have loaded meanwhile beyond the budgets.
func (f *Filters) leaveNothing() {
	v := f.env.Acquire()
	if v == nil {
		return
	}
	defer f.env.Release(v)
	for t := range v.Tables() {
		t.Reader.LeaveNothing()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fitLocked(v)
	f.fitIndexesLocked(v)
}

// LoadLater has Loop read what Open has left for later. Requires: Loop does not run yet.
func (f *Filters) LoadLater() {
	if f.loaded == nil {
		f.loaded = make(chan struct{})
	}
	base.Wake(f.wake)
}

// Loading reports whether Loop is still reading what Open has left for later.
func (f *Filters) Loading() bool {
	select {
	case <-f.loaded:
		return false
	default:
		return f.loaded != nil
	}
}

// AwaitLoaded waits until Loop has read what Open has left for later, or until ctx is done.
func (f *Filters) AwaitLoaded(ctx context.Context) error {
	if f.loaded == nil {
		return nil
	}
	select {
	case <-f.loaded:
		return nil
	case <-ctx.Done():
		return base.ContextError(ctx)
	}
}

// BeginRebuild waits until no one else rebuilds filters, or until ctx
// is done. The caller calls end when its own rebuild is complete.
func (f *Filters) BeginRebuild(ctx context.Context) (end func(), err error) {
	select {
	case f.rebuilding <- struct{}{}:
		return func() { <-f.rebuilding }, nil
	case <-ctx.Done():
		return nil, base.ContextError(ctx)
	}
}

// Adjust makes the resident filters and indexes of v fit their budgets, and then reads those
// for which there is room. It reads about adjustBytes, and reports whether there is more to
// read. What it could not read is left to Loop. Requires: the caller holds v's files.
func (f *Filters) Adjust(v *tree.Version) (more bool) {
	more = f.adjust(v)
	if f.endRound() {
		base.Wake(f.wake)
	}
	return more
}

// adjust is Adjust for Loop.
func (f *Filters) adjust(v *tree.Version) (more bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fitLocked(v)
	f.fitIndexesLocked(v)
	moreIndexes := f.restoreIndexesLocked(v) // also of the newest runs, whose filters follow
	return f.restoreLocked(v) || moreIndexes
}

// FitSoon releases what exceeds the budget, and leaves the rest
// of Adjust to Loop. If filters are being read or released at the
// moment, it leaves all of it to Loop, so that it does not wait.
func (f *Filters) FitSoon(v *tree.Version) {
	if f.mu.TryLock() {
		f.fitLocked(v)
		f.mu.Unlock()
	}
	base.Wake(f.wake)
}

// budgetOf returns how many bytes the resident filters of v may take.
func (f *Filters) budgetOf(v *tree.Version) int64 {
	var keys uint64
	for _, r := range v.Runs {
		keys += r.Keys
	}
	return f.env.Budget(keys)
}

// fitLocked releases filters of v until they fit the budget. The second units of
// filters go first. Whole filters go only if that is not enough and the budget is
// strict. Both times it begins with the deepest level: most of the memory is there,
// and a byte of filter saves more reads in the levels above. Requires: mu is held.
func (f *Filters) fitLocked(v *tree.Version) {
	excess := v.FilterMemory() - f.budgetOf(v)
	excess -= releaseFrom(v, excess, 2, (*sstable.Reader).DropSecondUnit)
	if f.env.Limited {
		releaseFrom(v, excess, 1, (*sstable.Reader).DropFilter)
	}
}

// releaseFrom calls drop for filters of v that have so many units in memory, until enough bytes
// are free or there is nothing left to release. It returns how many bytes are free.
func releaseFrom(v *tree.Version, enough int64, units int, drop func(*sstable.Reader) bool) (freed int64) {
	for _, r := range slices.Backward(v.Runs) {
		for _, t := range r.Tables {
			if freed >= enough {
				return freed
			}
			if f := t.Filter(); f != nil && f.Units() >= units {
				before := t.FilterMemory()
				drop(t.Reader)
				freed += before - t.FilterMemory()
			}
		}
	}
	return freed
}

// restoreLocked reads released filters for which there is room: first those
// that are gone as a whole, then second units, each beginning with the newest
// run. It leaves a sixteenth of the budget free, so that the next flush does
// not exceed it again. It reports whether there is more to read, as Adjust does.
// Requires: mu is held, and the caller holds v's files.
func (f *Filters) restoreLocked(v *tree.Version) (more bool) {
	if !f.env.Wanted {
		return false
	}
	budget := f.budgetOf(v)
	room := budget - budget/16 - v.FilterMemory()
	if room <= 0 { // as after most flushes of a store whose filters take all of the budget
		return false
	}
	if all := f.missing(v, filters, room); !all.full {
		f.load(all.first(adjustBytes), filters, func(t *tree.Table) failure { return f.restoreTable(t, false) })
		return all.bytes > adjustBytes
	}
	read := int64(0)
	for _, firstUnit := range []bool{true, false} {
		for _, r := range v.Runs {
			for _, t := range r.Tables {
				need := t.MissingFilter(firstUnit)
				if need <= 0 {
					continue
				}
				if need > room || f.env.Closing() {
					return false // a filter of a deeper run must not take the room of this one
				}
				if f.tried(filters, t) {
					room -= need // it is tried again
					continue
				}
				if read >= adjustBytes {
					return true
				}
				before := t.FilterMemory()
				f.note(filters, t, survive(t, func(t *tree.Table) failure { return f.restoreTable(t, firstUnit) }))
				room -= t.FilterMemory() - before
				read += need
				if room < -budget/16 { // the filter has only one unit, and its size was a wrong guess
					f.fitLocked(v)
					return false
				}
			}
		}
	}
	return false
}

// restoreTable reads t's filter again. If that is damaged, it marks
// the filter as lost, so that it is not tried again.
func (f *Filters) restoreTable(t *tree.Table, firstUnit bool) failure {
	lost, err := t.Reader.LoadFilter(firstUnit)
	if lost {
		t.FilterLost.Store(true)
	}
	return failure{err, lost}
}

// Reload tries again now to read what could not be read before, and returns
// how many filters that are not in memory for that reason it has brought there.
// Requires: the caller holds v.
func (f *Filters) Reload(v *tree.Version) (filters int) {
	var unread []*tree.Table
	for t := range v.Tables() {
		if t.MissingFilter(false) > 0 && (t.Reader.FilterErr() != nil || t.Reader.SidecarErr() != nil) {
			unread = append(unread, t)
		}
	}
	f.beginRound()
	for !f.env.Closing() && f.adjust(v) {
		continue
	}
	base.Wake(f.wake) // Loop sees to what is left
	for _, t := range unread {
		if t.Filter() != nil {
			filters++
		}
	}
	return filters
}
