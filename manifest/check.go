package manifest

import (
	"bytes"
	"cmp"
	"fmt"

	"github.com/shaledb/shale/internal/base"
)

// compareTables orders the tables of a run by their smallest keys. Two tables of one run
// can't have the same one. For tables that wrongly have, the number decides, so that the
// order is total.
func compareTables(a, b *Table) int {
	if c := bytes.Compare(a.Smallest, b.Smallest); c != 0 {
		return c
	}
	return cmp.Compare(a.Num, b.Num)
}

// inOrder reports whether b may follow a in a run: all keys of a are less than those of b.
func inOrder(a, b *Table) bool { return bytes.Compare(a.Largest, b.Smallest) < 0 }

// overlapError returns the error for two tables of one run that overlap.
func overlapError(a, b *Table) error {
	return fmt.Errorf("tables %s [%q, %q] and %s [%q, %q] of one run overlap",
		a.Num, a.Smallest, a.Largest, b.Num, b.Smallest, b.Largest)
}

// checkOrder checks invariant 2 of Version for one run.
func checkOrder(tables []*Table) error {
	for i := 1; i < len(tables); i++ {
		if !inOrder(tables[i-1], tables[i]) {
			return overlapError(tables[i-1], tables[i])
		}
	}
	return nil
}

// Check checks the invariants that Version lists. Its error names the first one that does not
// hold. It looks only at v, and reads no files.
func (v *Version) Check() error {
	// Tables and sidecars share one sequence of file numbers.
	seen := make(map[base.FileNum]int, v.NumTables())
	for level := range v.Levels {
		runs := v.Levels[level].Runs
		if err := checkRuns(level, runs); err != nil {
			return fmt.Errorf("level %d: %w", level, err)
		}
		for i := range runs {
			for _, t := range runs[i].Tables {
				if err := t.check(); err != nil {
					return fmt.Errorf("level %d: invariant 5: %w", level, err)
				}
				if other, twice := seen[t.Num]; twice {
					return fmt.Errorf("invariant 3: table %s is in level %d and in level %d", t.Num, other, level)
				}
				seen[t.Num] = level
				if t.Sidecar == nil {
					continue
				}
				if other, twice := seen[t.Sidecar.Num]; twice {
					return fmt.Errorf("invariant 3: sidecar %s of table %s has the number of a file in level %d", t.Sidecar.Num, t.Num, other)
				}
				seen[t.Sidecar.Num] = level
			}
			if err := checkOrder(runs[i].Tables); err != nil {
				return fmt.Errorf("level %d: invariant 2: %w", level, err)
			}
		}
	}
	return v.checkAges()
}

// checkRuns checks invariants 1 and 4 for one level.
func checkRuns(level int, runs []Run) error {
	if level > 0 && len(runs) > MaxRuns || level == NumLevels-1 && len(runs) > 1 {
		return fmt.Errorf("invariant 4: %d runs", len(runs))
	}
	for i := range runs {
		if len(runs[i].Tables) == 0 {
			return fmt.Errorf("invariant 1: run %d is empty", runs[i].ID)
		}
		if i > 0 && runs[i-1].ID <= runs[i].ID {
			return fmt.Errorf("invariant 1: run %d stands before run %d", runs[i-1].ID, runs[i].ID)
		}
	}
	return nil
}

// checkAges checks invariant 6.
func (v *Version) checkAges() error {
	runs := v.Levels[0].Runs
	var oldest base.Seq // smallest sequence number of the run before, which is newer
	for i := range runs {
		// lo and hi are the smallest and the largest sequence number of run i.
		lo, hi := base.MaxSeq, base.Seq(0)
		for _, t := range runs[i].Tables {
			lo, hi = min(lo, t.MinSeq), max(hi, t.MaxSeq)
		}
		if i > 0 && hi >= oldest {
			return fmt.Errorf("level 0: invariant 6: run %d goes up to sequence number %d, the newer run %d begins at %d",
				runs[i].ID, hi, runs[i-1].ID, oldest)
		}
		oldest = lo
	}
	return nil
}
