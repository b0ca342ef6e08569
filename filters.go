package shale

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/shaledb/shale/bloom"
	"github.com/shaledb/shale/filterplan"
	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/tree"
	"github.com/shaledb/shale/sstable"
)

// filterPolicy returns what the options say about filters.
func (db *DB) filterPolicy() filterplan.Policy {
	return filterplan.Policy{
		AverageBits:   db.opts.FilterBits,
		Memory:        db.opts.FilterMemory,
		LastLevelFuse: db.opts.LastLevelFilter == FuseFilter,
		Hasher:        db.hasher,
		PrefixRule:    db.opts.FilterPrefix.rule,
	}
}

// chooseHasher sets the hash function of the store, given the tables that it has.
func (db *DB) chooseHasher(v *tree.Version) (err error) {
	secret := db.opts.testing.seed
	if secret == 0 {
		var random [8]byte
		_, _ = rand.Read(random[:]) // never fails
		secret = binary.LittleEndian.Uint64(random[:])
	}
	var existing []bloom.Hasher
	for t := range v.Tables() {
		if f := t.Filter(); f != nil {
			existing = append(existing, f.Hasher())
		}
	}
	if db.hasher, err = filterplan.ChooseHasher(db.opts.FilterHash.id(), secret, existing); err != nil {
		return fmt.Errorf("shale: option FilterHash: %w", err)
	}
	return nil
}

// A residentFilters decides which filters of the tables are in memory. What does not
// fit the budget is released, and read again when there is room; the bytes stay in the
// files.
type residentFilters struct {
	residentFiltersEnv
	wake  chan struct{} // to loop: the tables have changed
	mu    sync.Mutex    // one change of what is resident at a time
	epoch atomic.Uint64 // counts up before and after each change: see filterSum
}

// A residentFiltersEnv is what a residentFilters needs from the store.
type residentFiltersEnv struct {
	wanted     bool                    // else filters are not read
	limited    bool                    // whole filters are released, too, if their second units are not enough
	budget     func(keys uint64) int64 // bytes that the filters of so many keys may take
	closing    func() bool
	acquire    func() *tree.Version // the current version, with a reference; nil: the store is closed
	release    func(v *tree.Version)
	unreadable func(t *tree.Table, err error) // t's filter can't be read again
}

func newResidentFilters(env residentFiltersEnv) *residentFilters {
	return &residentFilters{residentFiltersEnv: env, wake: make(chan struct{}, 1)}
}

// loop keeps the resident filters within their budget and brings back what has room
// again, whenever the tables have changed.
func (f *residentFilters) loop(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-f.wake:
		}
		if v := f.acquire(); v != nil {
			f.adjust(v)
			f.release(v)
		}
	}
}

// adjust makes the resident filters of v fit the budget, and reads what has room.
// Requires: v's files are held.
func (f *residentFilters) adjust(v *tree.Version) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fitLocked(v)
	f.restoreLocked(v)
}

// fitSoon makes room at once, unless filters are being read, and leaves the rest to
// loop.
func (f *residentFilters) fitSoon(v *tree.Version) {
	if f.mu.TryLock() {
		f.fitLocked(v)
		f.mu.Unlock()
	}
	base.Wake(f.wake)
}

// budgetOf returns the bytes that the resident filters of v may take.
func (f *residentFilters) budgetOf(v *tree.Version) int64 {
	var keys uint64
	for _, r := range v.Runs {
		keys += r.Keys
	}
	return f.budget(keys)
}

// fitLocked makes the resident filters of v fit the budget. Second units go
// first, whole filters only if that is not enough, and only if their memory is limited;
// in both rounds those of the deepest level first: most of the memory is there, and
// in the levels above a byte of filter saves the most. Requires: mu is held.
func (f *residentFilters) fitLocked(v *tree.Version) {
	excess := v.FilterMemory(f.epoch.Load()) - f.budgetOf(v)
	if excess <= 0 {
		return
	}
	defer f.change()()
	releases := []func(*sstable.Reader) bool{(*sstable.Reader).DropSecondUnit, (*sstable.Reader).DropFilter}
	if !f.limited {
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
func (f *residentFilters) restoreLocked(v *tree.Version) {
	if !f.wanted {
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
				if need > room || f.closing() {
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
func (f *residentFilters) restoreTable(t *tree.Table, firstUnit bool) {
	defer f.change()()
	if err := t.Reader.LoadFilter(firstUnit); err != nil {
		t.FilterLost.Store(true)
		if !f.closing() {
			f.unreadable(t, err)
		}
	}
}

// change is called before the resident filters change, and what it returns afterwards.
func (f *residentFilters) change() (done func()) {
	f.epoch.Add(1)
	return func() { f.epoch.Add(1) }
}

// reportFilter tells of filters of t that Open could not use.
func (db *DB) reportFilter(t *tree.Table) {
	for _, err := range []error{t.Reader.SidecarErr(), t.Reader.FilterErr()} {
		if err != nil && db.opts.FilterBits >= 0 {
			db.filterUnusable(t, err)
		}
	}
}

// filterUnusable tells of a filter that can't be used.
func (db *DB) filterUnusable(t *tree.Table, err error) {
	db.counters.unusableFilters.Add(1)
	db.events.emit(Event{Kind: EventFilterUnusable, Tables: []uint64{uint64(t.Meta.Num)}, Err: err})
}

// judgeFilter reports, once for each table, that its filter lets pass more absent keys
// than it should: because of a bad hash function for these keys, of keys that somebody
// made to be false positives, or of a mistake in the filter. n is the number of its
// false positives so far.
func (db *DB) judgeFilter(t *tree.Table, n uint64) {
	if !filterplan.JudgedAt(n) {
		return
	}
	asked, p := n+t.Negatives.Load(), t.PredictedFPR()
	if !filterplan.IsWorse(n, asked, p) || !t.Worse.CompareAndSwap(false, true) {
		return
	}
	db.counters.worseFilters.Add(1)
	db.events.emit(Event{
		Kind: EventFilterWorse, Tables: []uint64{uint64(t.Meta.Num)},
		Reason: fmt.Sprintf("%s false positives measured, %s predicted, asked %d times",
			base.FormatPercent(ratio(n, asked)), base.FormatPercent(p), asked),
	})
}
