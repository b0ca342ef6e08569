package compaction

import (
	"bytes"

	"github.com/shaledb/shale/manifest"
)

// overlapTables bounds how much of the next level one output table overlaps,
// as a multiple of the table size. A table that overlapped more would be
// expensive to compact later, so it ends at the next grandparent's bound.
const overlapTables = 10

// tinyShare: a guard ends a table only if the table has at least a 16th of the table size.
const tinyShare = 16

// A cutter decides where a merge ends one table and begins the next. There are three
// reasons to end a table: it has its full size, it overlaps too many grandparents, or
// the merge passes the end of a guard. The grandparents are tables of the next deeper
// level, and the guards those of the next older run of the same level: see Plan.
type cutter struct {
	tableSize    int64
	grandparents []*manifest.Table // those that end at or after the last key
	guards       []*manifest.Table // the same of the guards
	overlap      int64             // bytes of the grandparents that ended since the table began
}

// newCutter returns a cutter at the beginning of the output.
func newCutter(o MergeOptions) cutter {
	return cutter{tableSize: o.TableSize, grandparents: o.Grandparents, guards: o.Guards}
}

// before reports whether the open table has to end before key. out is the open table, or nil
// if there is none. Requires: key is a new user key, above the keys of all earlier calls.
func (c *cutter) before(key []byte, out Output) bool {
	crossed, guarded := false, false
	for len(c.guards) > 0 && bytes.Compare(c.guards[0].Largest, key) < 0 {
		c.guards = c.guards[1:]
		guarded = true
	}
	for len(c.grandparents) > 0 && bytes.Compare(c.grandparents[0].Largest, key) < 0 {
		c.overlap += c.grandparents[0].Size
		c.grandparents = c.grandparents[1:]
		crossed = true
	}
	if out == nil {
		c.overlap = 0
		return false
	}
	if !c.due(crossed, out) && !(guarded && out.EstimatedSize() >= c.tableSize/tinyShare) {
		return false
	}
	c.overlap = 0
	return true
}

// due reports whether the open table ends because of its size or of the
// grandparents. crossed says that a grandparent has ended since the last key.
func (c *cutter) due(crossed bool, out Output) bool {
	if c.tableSize <= 0 {
		return false
	}
	size := out.EstimatedSize()
	switch {
	case size >= c.tableSize:
		return true
	case !crossed:
		return false
	}
	// A table that is at least three quarters full ends early at a bound of the next
	// level: then no table there lies partly under this one and partly under its
	// successor, and the later compaction of this table rewrites one table less.
	return c.overlap > overlapTables*c.tableSize || size >= c.tableSize/4*3
}
