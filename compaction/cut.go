package compaction

import (
	"bytes"

	"github.com/shaledb/shale/manifest"
)

// overlapTables is how many tables' worth of grandparents a table may overlap
// before it is cut: more would make its own compaction dear.
const overlapTables = 10

// tinyShare is the part of a table's size below which a guard does not end it.
const tinyShare = 16

// A cutter decides where a merge ends one table and begins the next.
type cutter struct {
	tableSize    int64
	grandparents []*manifest.Table // those not passed yet
	guards       []*manifest.Table // those not passed yet
	overlap      int64             // bytes of those passed since the table began
}

func newCutter(o MergeOptions) cutter {
	return cutter{tableSize: o.TableSize, grandparents: o.Grandparents, guards: o.Guards}
}

// before says whether the open table (nil: there is none) has to end before
// key, a new user key.
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
	// At a bound that the next level has too, a table that is nearly full
	// ends early: its compaction then rewrites one table less.
	return c.overlap > overlapTables*c.tableSize || size >= c.tableSize/4*3
}
