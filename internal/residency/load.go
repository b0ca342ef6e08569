package residency

import (
	"maps"
	"math"
	"sync"
	"sync/atomic"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/tree"
)

// adjustBytes is how many bytes of filters, and how many of indexes, Adjust reads at most, but
// for one table more. Then others get their turn: it takes a tenth of a second or less.
const adjustBytes = 64 << 20

// loaders is how many tables load reads at a time.
const loaders = 8

// A kind of what a table has in memory: filters or indexes.
type kind struct {
	of      int                       // its place in Filters.unread
	missing func(t *tree.Table) int64 // bytes that are not in memory, and are not damaged
}

var (
	filters = kind{
		of:      0,
		missing: func(t *tree.Table) int64 { return t.MissingFilter(false) },
	}
	indexes = kind{
		of:      1,
		missing: (*tree.Table).MissingIndex,
	}
)

// A list has tables of which something is missing, newest run first.
type list struct {
	tables []*tree.Table
	needs  []int64 // bytes, of each table
	bytes  int64   // the sum of needs
	full   bool    // there are more, for which there is no room
}

// missing lists the tables of v of which something is missing, as long as that is no more than
// room bytes. What could not be read in this round is not in the list, but keeps its room: no
// deeper run may take that.
func (f *Filters) missing(v *tree.Version, k kind, room int64) (l list) {
	for _, r := range v.Runs {
		for _, t := range r.Tables {
			need := k.missing(t)
			if need <= 0 {
				continue
			}
			if room -= need; room < 0 {
				l.full = true
				return l
			}
			if !f.tried(k, t) {
				l.tables, l.needs = append(l.tables, t), append(l.needs, need)
				l.bytes += need
			}
		}
	}
	return l
}

// first returns the first tables of l that have most bytes together, or a little more.
func (l list) first(most int64) []*tree.Table {
	for i, need := range l.needs {
		if most -= need; most < 0 {
			return l.tables[:i+1]
		}
	}
	return l.tables
}

// load calls restore for each table, for several at a time, until the store is closing.
// Requires: mu is held, and the caller holds the files of the tables.
func (f *Filters) load(tables []*tree.Table, k kind, restore func(*tree.Table) failure) {
	if len(tables) == 0 {
		return
	}
	failures := make([]failure, len(tables))
	var next atomic.Int64
	var wg sync.WaitGroup
	for range min(loaders, len(tables)) {
		wg.Go(func() {
			for !f.env.Closing() {
				i := int(next.Add(1)) - 1
				if i >= len(tables) {
					return
				}
				failures[i] = survive(tables[i], restore)
			}
		})
	}
	wg.Wait()
	for i, t := range tables {
		f.note(k, t, failures[i])
	}
}

// survive calls restore. The panic of a file system is a failure that may pass.
func survive(t *tree.Table, restore func(*tree.Table) failure) (how failure) {
	if err := base.Survive(func() error { how = restore(t); return nil }); err != nil {
		return failure{err: err}
	}
	return how
}

// A failure says why a filter or an index was not read. lost: the bytes are damaged. Otherwise it
// is tried again: the device may have had a moment's trouble, or the process no descriptor left.
type failure struct {
	err  error // nil: it was read
	lost bool
}

// tried reports whether what is missing of t could not be read in this round. Requires: mu is held.
func (f *Filters) tried(k kind, t *tree.Table) bool { return f.unread[k.of][t] == f.round }

// note keeps how a read has ended, and reports a failure: the first of several in a row.
// Requires: mu is held.
func (f *Filters) note(k kind, t *tree.Table, how failure) {
	unread := f.unread[k.of]
	_, again := unread[t]
	if how.err == nil || how.lost {
		delete(unread, t)
	} else {
		unread[t] = f.round
	}
	// Close ends reads, but does not damage files: the program may end before anybody else meets that.
	if how.err == nil || again && !how.lost || f.env.Closing() && !base.Lasts(how.err) {
		return
	}
	if k.of == filters.of {
		f.env.Unreadable(t, how.err)
	} else {
		f.env.UnreadableIndex(t, how.err)
	}
}

// beginRound lets everything be tried again that could not be read.
func (f *Filters) beginRound() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.round++
}

// endRound forgets the tables of which nothing is missing any more, or that are gone, and reports
// whether there is something left to be tried again.
func (f *Filters) endRound() (again bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, unread := range f.unread {
		maps.DeleteFunc(unread, func(_ *tree.Table, round uint64) bool { return round != f.round })
		again = again || len(unread) > 0
	}
	return again
}

// LoadNow reads the filter of a table again that a lookup could not read, unless Loop has tried that already. So what is
// wrong with it is reported before the lookup returns: the program may end right after it, before Loop comes to the table.
func (f *Filters) LoadNow(num base.FileNum) {
	v := f.env.Acquire()
	if v == nil {
		return
	}
	defer f.env.Release(v)
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, t := range f.missing(v, filters, math.MaxInt64).tables {
		if t.Meta.Num == num {
			f.load([]*tree.Table{t}, filters, func(t *tree.Table) failure { return f.restoreTable(t, false) })
		}
	}
}
