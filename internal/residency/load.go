package residency

import (
	"sync"
	"sync/atomic"

	"github.com/shaledb/shale/internal/tree"
)

// adjustBytes is how many bytes of filters, and how many of indexes, Adjust reads at most, but
// for one table more. Then others get their turn: it takes a tenth of a second or less.
const adjustBytes = 64 << 20

// loaders is how many tables load reads at a time.
const loaders = 8

// A kind of what a table has in memory: filters or indexes.
type kind struct {
	missing func(t *tree.Table) int64    // bytes that are not in memory and can be read
	short   func(sum tree.FilterSum) int // tables of a run of which bytes are missing
}

var (
	filters = kind{
		missing: func(t *tree.Table) int64 { return t.MissingFilter(false) },
		short:   func(sum tree.FilterSum) int { return sum.Short },
	}
	indexes = kind{
		missing: (*tree.Table).MissingIndex,
		short:   func(sum tree.FilterSum) int { return sum.Unindexed },
	}
)

// A list has tables of which something is missing, newest run first.
type list struct {
	tables []*tree.Table
	needs  []int64 // bytes, of each table
	bytes  int64   // the sum of needs
}

// missing lists the tables of v of which something is missing, up to the first with which that
// is more than most bytes. It passes over runs of which it is known that nothing is missing.
func (f *Filters) missing(v *tree.Version, k kind, most int64) (l list) {
	for _, r := range v.Runs {
		if sum, known := r.FilterSum(f.epoch.Load()); known && k.short(sum) == 0 {
			continue
		}
		for _, t := range r.Tables {
			if need := k.missing(t); need > 0 {
				l.tables, l.needs = append(l.tables, t), append(l.needs, need)
				l.bytes += need
			}
			if l.bytes > most {
				return l
			}
		}
	}
	return l
}

// withoutLast returns l without its last table.
func (l list) withoutLast() list {
	last := len(l.needs) - 1
	return list{tables: l.tables[:last], needs: l.needs[:last], bytes: l.bytes - l.needs[last]}
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
func (f *Filters) load(tables []*tree.Table, restore func(*tree.Table)) {
	if len(tables) == 0 {
		return
	}
	defer f.Changing()()
	var next atomic.Int64
	var wg sync.WaitGroup
	for range min(loaders, len(tables)) {
		wg.Go(func() {
			for !f.env.Closing() {
				i := int(next.Add(1)) - 1
				if i >= len(tables) {
					return
				}
				restore(tables[i])
			}
		})
	}
	wg.Wait()
}
