package manifest

import (
	"bytes"
	"cmp"
	"fmt"
	"iter"
	"slices"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/spans"
)

// MaxRuns is the largest number of runs of a level between level 0 and the last one. The last
// level has at most one run.
const MaxRuns = 16

// A Level is a list of runs, newest first.
type Level struct {
	Runs []Run

	// The sums over the tables of counted, if that is Runs. Apply has set both.
	totals  Totals
	counted []Run
}

// A Version is the set of tables that a store consists of at one moment. It is immutable, and
// many goroutines may use it. The zero Version is the empty store.
//
// Invariants, which Check checks:
//  1. The runs of a level are in descending order of ID, and none is empty.
//  2. The tables of a run are in the order of their keys, and no user key is in the ranges
//     of two of them.
//  3. A file number, of a table or of a sidecar, occurs once in a version.
//  4. A level between level 0 and the last has at most MaxRuns runs, and the last has at most
//     one.
//  5. What a table says about itself is possible: sizes, counts, order of bounds.
//  6. Of two runs of level 0, the newer one has the higher sequence numbers.
type Version struct {
	Levels [NumLevels]Level
	// Spans are the range deletes that may cover an entry of a table, or that a snapshot does not see.
	Spans *spans.Set
}

// Totals returns the sums over the tables of a level.
func (v *Version) Totals(level int) Totals {
	l := &v.Levels[level]
	if n := len(l.Runs); n > 0 && n == len(l.counted) && &l.Runs[0] == &l.counted[0] {
		return l.totals
	}
	return l.sum()
}

// sum returns the sums over the tables of the runs of l. Level 0 may have thousands of runs.
func (l *Level) sum() (sum Totals) {
	for i := range l.Runs {
		sum.Add(l.Runs[i].Totals())
	}
	return sum
}

// Bytes returns the sum of the sizes of a level's tables, in bytes.
func (v *Version) Bytes(level int) int64 { return v.Totals(level).Bytes }

// Tables yields all tables, level by level, and in each level the newest run first.
func (v *Version) Tables() iter.Seq[*Table] {
	return func(yield func(*Table) bool) {
		for _, level := range v.Levels {
			for _, run := range level.Runs {
				for _, t := range run.Tables {
					if !yield(t) {
						return
					}
				}
			}
		}
	}
}

// NumTables returns the number of tables in the version.
func (v *Version) NumTables() int {
	n := 0
	for level := range v.Levels {
		n += v.Totals(level).Tables
	}
	return n
}

// New returns the tables of v that are not in the same run of old, or that old describes in
// another way. Runs that v shares with old cost nothing, and the others one pass.
func (v *Version) New(old *Version) (tables []*Table) {
	for level := range v.Levels {
		runs := old.Levels[level].Runs
		for _, run := range v.Levels[level].Runs {
			for len(runs) > 0 && runs[0].ID > run.ID {
				runs = runs[1:] // level 0 may have thousands
			}
			var before []*Table
			if len(runs) > 0 && runs[0].ID == run.ID {
				before = runs[0].Tables
			}
			if len(before) == len(run.Tables) && &before[0] == &run.Tables[0] {
				continue
			}
			for _, t := range run.Tables {
				for len(before) > 0 && before[0] != t && bytes.Compare(before[0].Largest, t.Smallest) < 0 {
					before = before[1:]
				}
				if len(before) > 0 && before[0] == t {
					before = before[1:]
				} else {
					tables = append(tables, t)
				}
			}
		}
	}
	return tables
}

// Overlaps returns the tables of a level that may have a user key in [lo, hi], newest run
// first. If hi is nil, there is no upper bound. The caller must not change the result.
func (v *Version) Overlaps(level int, lo, hi []byte) []*Table {
	runs := v.Levels[level].Runs
	if len(runs) == 1 {
		return runs[0].Overlaps(lo, hi)
	}
	var all []*Table
	for i := range runs {
		all = append(all, runs[i].Overlaps(lo, hi)...)
	}
	return all
}

// Apply returns the version after e. v does not change.
//
// It takes time in proportion to the tables of the levels that e changes. The result shares
// the other levels with v, and in changed levels the runs that stay the same. The sums over a
// run are computed from those of the run before, and not from all of its tables.
//
// Apply fails if a table that e removes is not there, or if one that e adds overlaps another
// of its run. It does not check invariants 3 to 6: see Check.
func (v *Version) Apply(e *Edit) (*Version, error) {
	removed, added, err := e.byLevel()
	if err != nil {
		return nil, err
	}
	sidecars, err := e.sidecarsByLevel()
	if err != nil {
		return nil, err
	}
	// The runs are slices, so levels that do not change share them with v.
	next := &Version{Levels: v.Levels, Spans: v.Spans}
	for _, f := range e.Finished {
		next.Spans = next.Spans.Without(f.Lower, f.Upper, f.Seq)
	}
	next.Spans = next.Spans.Union(e.Spans)
	for level := range next.Levels {
		if len(removed[level]) > 0 || len(added[level]) > 0 {
			next.Levels[level].Runs, err = applyLevel(v.Levels[level].Runs, removed[level], added[level])
		}
		if err == nil {
			next.Levels[level].Runs, err = applySidecars(next.Levels[level].Runs, sidecars[level])
		}
		if err != nil {
			return nil, fmt.Errorf("level %d: %w", level, err)
		}
		if l := &next.Levels[level]; len(removed[level])+len(added[level])+len(sidecars[level]) > 0 {
			l.totals, l.counted = l.sum(), l.Runs
		}
	}
	return next, nil
}

// applyLevel returns the runs of a level after its changes: it removes tables from the runs,
// adds tables to them, and makes new runs. Runs that do not change are shared. Runs that
// become empty are dropped.
func applyLevel(runs []Run, removed map[base.FileNum]*Table, added map[uint64][]*Table) ([]Run, error) {
	next := make([]Run, 0, len(runs)+len(added))
	found := 0
	for i := range runs {
		gone := runs[i].indexes(removed)
		found += len(gone)
		run, err := runs[i].changed(gone, added[runs[i].ID])
		if err != nil {
			return nil, err
		}
		if len(run.Tables) > 0 {
			next = append(next, run)
		}
		// What is left in added at the end belongs to new runs.
		delete(added, run.ID)
	}
	// Each table was looked for in all runs of the level.
	if found != len(removed) {
		return nil, fmt.Errorf("%d of %d tables to remove are not there", len(removed)-found, len(removed))
	}
	fresh := make([]*Run, 0, len(added)) // pointers, because sorting values of this size is much code
	for id, tables := range added {
		run, err := Run{ID: id}.changed(nil, tables)
		if err != nil {
			return nil, err
		}
		fresh = append(fresh, &run)
	}
	slices.SortFunc(fresh, func(a, b *Run) int { return cmp.Compare(b.ID, a.ID) })
	old := next
	next = make([]Run, 0, len(old)+len(fresh))
	for _, run := range fresh {
		for len(old) > 0 && old[0].ID > run.ID {
			next, old = append(next, old[0]), old[1:]
		}
		next = append(next, *run)
	}
	return append(next, old...), nil
}

// indexes returns the places, in ascending order, of those tables in some that are in r. A
// table whose description is given is found by its keys. If there are others, or r has fewer
// tables than some has, it looks at the tables of r one by one. So it takes little time to remove
// many tables from a level of many runs.
func (r Run) indexes(some map[base.FileNum]*Table) (at []int) {
	if len(r.Tables) < len(some) {
		for i, t := range r.Tables {
			if _, ok := some[t.Num]; ok {
				at = append(at, i)
			}
		}
		return at
	}
	// Tables without a description, which can be found only by their numbers.
	unknown := 0
	for num, t := range some {
		if t == nil {
			unknown++
		} else if i := r.Find(t.Largest); i < len(r.Tables) && r.Tables[i].Num == num {
			at = append(at, i)
		}
	}
	for i := 0; i < len(r.Tables) && unknown > 0; i++ {
		if t, ok := some[r.Tables[i].Num]; ok && t == nil {
			at = append(at, i)
			unknown--
		}
	}
	slices.Sort(at)
	return at
}

// changed returns r without the tables at the places gone, which ascend, and with the tables
// fresh in theirs. r does not change, but fresh becomes sorted. Tables that overlap are an error.
//
// It copies the list of tables once, and looks only at those that come, those that go, and their
// neighbours: a run may have 100,000 others.
func (r Run) changed(gone []int, fresh []*Table) (Run, error) {
	if len(gone) == 0 && len(fresh) == 0 {
		return r, nil
	}
	slices.SortFunc(fresh, compareTables)
	rest := keeper{tables: r.Tables, gone: gone}
	all := make([]*Table, 0, len(r.Tables)-len(gone)+len(fresh))
	for _, t := range fresh {
		n, _ := slices.BinarySearchFunc(rest.tables, t, compareTables)
		all = rest.appendTo(all, n)
		if len(all) > 0 && !inOrder(all[len(all)-1], t) {
			return Run{}, overlapError(all[len(all)-1], t)
		}
		if next := rest.first(); next != nil && !inOrder(t, next) {
			return Run{}, overlapError(t, next)
		}
		all = append(all, t)
	}
	all = rest.appendTo(all, len(rest.tables))
	totals := r.Totals()
	for _, i := range gone {
		totals.subtract(TotalsOf(r.Tables[i : i+1]))
	}
	totals.Add(TotalsOf(fresh))
	return Run{ID: r.ID, Tables: all, totals: totals}, nil
}

// A keeper is the rest of a list of tables of which some go.
type keeper struct {
	tables []*Table
	at     int   // index of the first of tables in the list
	gone   []int // indexes in the list of those that go and are not passed yet
}

// appendTo appends the tables that stay, of the next n, to dst, and passes the n tables.
func (k *keeper) appendTo(dst []*Table, n int) []*Table {
	end := k.at + n
	for n > 0 {
		stay := n
		goes := len(k.gone) > 0 && k.gone[0] < end
		if goes {
			stay = k.gone[0] - k.at
		}
		dst = append(dst, k.tables[:stay]...)
		if goes {
			stay++
			k.gone = k.gone[1:]
		}
		k.tables, k.at, n = k.tables[stay:], k.at+stay, n-stay
	}
	return dst
}

// first passes the tables that go, and returns the first that stays, or nil.
func (k *keeper) first() *Table {
	for len(k.gone) > 0 && k.gone[0] == k.at {
		k.tables, k.at, k.gone = k.tables[1:], k.at+1, k.gone[1:]
	}
	if len(k.tables) == 0 {
		return nil
	}
	return k.tables[0]
}
