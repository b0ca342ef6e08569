// Package residency decides which filters of a store's tables are in memory.
package residency

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/tree"
	"github.com/shaledb/shale/sstable"
)

// Filters keeps the filters of a store in memory as far as its budget goes. What does not
// fit is released, and read again when there is room. The bytes stay in the files.
// All methods may be called concurrently.
type Filters struct {
	env   Env
	wake  chan struct{} // to Loop: the tables have changed
	mu    sync.Mutex    // one change of what is resident at a time
	epoch atomic.Uint64 // counts up before and after each change: see tree.FilterSum

	rebuilding chan struct{} // holds a token while filters are rebuilt
}

// An Env is what Filters need from the store.
type Env struct {
	Wanted     bool                    // else filters are not read
	Limited    bool                    // whole filters are released, too, if their second units are not enough
	Budget     func(keys uint64) int64 // bytes that the filters of all keys may take, given how many there are
	Closing    func() bool
	Acquire    func() *tree.Version // the current version, with a reference; nil: the store is closed
	Release    func(v *tree.Version)
	Unreadable func(t *tree.Table, err error) // t's filter can't be read again
}

// New returns the Filters of no version yet.
func New(env Env) *Filters {
	return &Filters{env: env, wake: make(chan struct{}, 1), rebuilding: make(chan struct{}, 1)}
}

// Loop keeps the resident filters within their budget and brings back what has room
// again, whenever the tables have changed.
func (f *Filters) Loop(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-f.wake:
		}
		if v := f.env.Acquire(); v != nil {
			f.Adjust(v)
			f.env.Release(v)
		}
	}
}

// BeginRebuild waits until nobody else rebuilds filters, or ctx is done. The caller calls end
// when it has rebuilt its own.
func (f *Filters) BeginRebuild(ctx context.Context) (end func(), err error) {
	select {
	case f.rebuilding <- struct{}{}:
		return func() { <-f.rebuilding }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Epoch returns the present epoch. What was computed from the resident filters holds as long
// as it stays the same.
func (f *Filters) Epoch() uint64 { return f.epoch.Load() }

// Adjust makes the resident filters of v fit the budget, and reads what has room.
// Requires: v's files are held.
func (f *Filters) Adjust(v *tree.Version) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fitLocked(v)
	f.restoreLocked(v)
}

// FitSoon makes room at once, unless filters are being read, and leaves the rest to
// Loop.
func (f *Filters) FitSoon(v *tree.Version) {
	if f.mu.TryLock() {
		f.fitLocked(v)
		f.mu.Unlock()
	}
	base.Wake(f.wake)
}

// budgetOf returns the bytes that the resident filters of v may take.
func (f *Filters) budgetOf(v *tree.Version) int64 {
	var keys uint64
	for _, r := range v.Runs {
		keys += r.Keys
	}
	return f.env.Budget(keys)
}

// fitLocked makes the resident filters of v fit the budget. Second units go
// first, whole filters only if that is not enough, and only if their memory is limited;
// in both rounds those of the deepest level first: most of the memory is there, and
// in the levels above a byte of filter saves the most. Requires: mu is held.
func (f *Filters) fitLocked(v *tree.Version) {
	excess := v.FilterMemory(f.epoch.Load()) - f.budgetOf(v)
	if excess <= 0 {
		return
	}
	defer f.Changing()()
	releases := []func(*sstable.Reader) bool{(*sstable.Reader).DropSecondUnit, (*sstable.Reader).DropFilter}
	if !f.env.Limited {
		releases = releases[:1]
	}
	for _, release := range releases {
		for _, r := range slices.Backward(v.Runs) {
			for _, t := range r.Tables {
				if excess <= 0 {
					return
				}
				before := t.FilterMemory()
				release(t.Reader)
				excess -= before - t.FilterMemory()
			}
		}
	}
}

// restoreLocked reads from the files what was released and has room again:
// filters that are gone, then second units, from the newest run on. A sixteenth
// of the budget stays free, so that the next flush does not undo it. Requires:
// mu is held; v's files are held.
func (f *Filters) restoreLocked(v *tree.Version) {
	if !f.env.Wanted {
		return
	}
	budget := f.budgetOf(v)
	room := budget - budget/16 - v.FilterMemory(f.epoch.Load())
	for _, firstUnit := range []bool{true, false} {
		for _, r := range v.Runs {
			if sum, known := r.FilterSum(f.epoch.Load()); known && sum.Short == 0 {
				continue
			}
			for _, t := range r.Tables {
				need := t.MissingFilter(firstUnit)
				if need <= 0 {
					continue
				}
				if need > room || f.env.Closing() {
					return // what lies deeper must not come before it
				}
				before := t.FilterMemory()
				f.restoreTable(t, firstUnit)
				room -= t.FilterMemory() - before
				if room < -budget/16 { // it has only one unit: what it takes was a guess
					f.fitLocked(v)
					return
				}
			}
		}
	}
}

// restoreTable reads t's filter again. What can't be read once is not tried
// again.
func (f *Filters) restoreTable(t *tree.Table, firstUnit bool) {
	defer f.Changing()()
	if err := t.Reader.LoadFilter(firstUnit); err != nil {
		t.FilterLost.Store(true)
		if !f.env.Closing() {
			f.env.Unreadable(t, err)
		}
	}
}

// Changing is called before the resident filters change, and what it returns afterwards.
func (f *Filters) Changing() (done func()) {
	f.epoch.Add(1)
	return func() { f.epoch.Add(1) }
}
