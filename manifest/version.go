package manifest

import (
	"cmp"
	"fmt"
	"iter"
	"slices"

	"github.com/shaledb/shale/internal/base"
)

// MaxRuns is how many runs a level between level 0 and the last may hold. The
// last holds one.
const MaxRuns = 16

// A Level is the runs of one depth, newest first.
type Level struct {
	Runs []Run
}

// A Version is the set of tables that make up a store at one moment. It is
// immutable and may be used by many goroutines. These hold, and Check verifies
// them:
//
//  1. The runs of a level stand in descending order of ID, and none is empty.
//  2. The tables of a run are in the order of their keys, and no user key lies
//     in the ranges of two of them.
//  3. A file number, of a table or a sidecar, stands in a version once.
//  4. A level between level 0 and the last has MaxRuns runs at most, the last one.
//  5. What a table says of itself is possible: sizes, counts, order of bounds.
//  6. Of two runs of level 0, the newer holds the higher sequence numbers.
//
// The zero Version is the empty store.
type Version struct {
	Levels [NumLevels]Level
}

// Totals returns the sums over the tables of a level.
func (v *Version) Totals(level int) Totals {
	var sum Totals
	for i := range v.Levels[level].Runs {
		sum.Add(v.Levels[level].Runs[i].Totals())
	}
	return sum
}

// Bytes returns the size of the tables of a level.
func (v *Version) Bytes(level int) int64 { return v.Totals(level).Bytes }

// Tables gives all tables, level by level.
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

// NumTables returns how many tables the version has.
func (v *Version) NumTables() int {
	n := 0
	for level := range v.Levels {
		n += v.Totals(level).Tables
	}
	return n
}

// Overlaps returns the tables of a level that may hold a user key in [lo, hi],
// newest run first. A nil hi has no bound.
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

// Apply returns v with the edit's removals and additions made. Its cost is
// proportional to the tables of the levels that change; the other levels are
// shared with v. The error says which table is missing or in the way; v stays
// as it is in any case.
func (v *Version) Apply(e *Edit) (*Version, error) {
	removed, added, err := e.byLevel()
	if err != nil {
		return nil, err
	}
	sidecars, err := e.sidecarsByLevel()
	if err != nil {
		return nil, err
	}
	next := &Version{Levels: v.Levels}
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
	}
	return next, nil
}

// applyLevel merges the changes of one level into its runs.
func applyLevel(runs []Run, removed map[base.FileNum]*Table, added map[uint64][]*Table) ([]Run, error) {
	next := make([]Run, 0, len(runs)+len(added))
	found := 0
	for i := range runs {
		run := runs[i].without(removed)
		found += len(runs[i].Tables) - len(run.Tables)
		run, err := run.with(added[run.ID])
		if err != nil {
			return nil, err
		}
		if len(run.Tables) > 0 {
			next = append(next, run)
		}
		delete(added, run.ID)
	}
	if found != len(removed) {
		return nil, fmt.Errorf("%d of %d tables to remove are not there", len(removed)-found, len(removed))
	}
	for id, fresh := range added {
		run, err := Run{ID: id}.with(fresh)
		if err != nil {
			return nil, err
		}
		next = append(next, run)
	}
	slices.SortFunc(next, func(a, b Run) int { return cmp.Compare(b.ID, a.ID) })
	return next, nil
}

// without returns r less the tables in removed. r stays as it is.
func (r Run) without(removed map[base.FileNum]*Table) Run {
	gone := r.indexes(removed)
	if len(gone) == 0 {
		return r
	}
	kept := make([]*Table, 0, len(r.Tables)-len(gone))
	totals := r.Totals()
	next := 0
	for _, i := range gone {
		kept = append(kept, r.Tables[next:i]...)
		totals.subtract(TotalsOf(r.Tables[i : i+1]))
		next = i + 1
	}
	return Run{ID: r.ID, Tables: append(kept, r.Tables[next:]...), totals: totals}
}

// indexes returns where those of the tables are that r has, ascending.
func (r Run) indexes(removed map[base.FileNum]*Table) (at []int) {
	unknown := 0
	for num, t := range removed {
		if t == nil {
			unknown++
		} else if i := r.Find(t.Largest); i < len(r.Tables) && r.Tables[i].Num == num {
			at = append(at, i)
		}
	}
	for i := 0; i < len(r.Tables) && unknown > 0; i++ {
		if t, ok := removed[r.Tables[i].Num]; ok && t == nil {
			at = append(at, i)
			unknown--
		}
	}
	slices.Sort(at)
	return at
}

// with returns r with the fresh tables in their places. r stays as it is;
// fresh is sorted. Tables in the way of each other are an error.
func (r Run) with(fresh []*Table) (Run, error) {
	if len(fresh) == 0 {
		return r, nil
	}
	slices.SortFunc(fresh, compareTables)
	rest := r.Tables
	all := make([]*Table, 0, len(rest)+len(fresh))
	for _, t := range fresh {
		n, _ := slices.BinarySearchFunc(rest, t, compareTables)
		all, rest = append(all, rest[:n]...), rest[n:]
		if len(all) > 0 && !inOrder(all[len(all)-1], t) {
			return Run{}, overlapError(all[len(all)-1], t)
		}
		if len(rest) > 0 && !inOrder(t, rest[0]) {
			return Run{}, overlapError(t, rest[0])
		}
		all = append(all, t)
	}
	totals := r.Totals()
	totals.Add(TotalsOf(fresh))
	return Run{ID: r.ID, Tables: append(all, rest...), totals: totals}, nil
}
