package compaction

import (
	"bytes"

	"github.com/shaledb/shale/manifest"
)

// Older tells for which keys older data may exist below a compaction's output:
// there its tombstones must stay. The zero Older knows nothing, so that every
// key may have some. It is immutable; sub-ranges share it.
type Older struct {
	known bool
	runs  [][]*manifest.Table // each sorted and disjoint
}

// olderBelow returns the tables of v that overlap [lo, hi] in older runs of a
// level than the one given, and in levels below.
func olderBelow(v *manifest.Version, level int, run uint64, lo, hi []byte) Older {
	o := Older{known: true}
	for below := level; below <= lastLevel; below++ {
		runs := v.Levels[below].Runs
		for i := range runs {
			if below == level && runs[i].ID >= run {
				continue
			}
			if tables := runs[i].Overlaps(lo, hi); len(tables) > 0 {
				o.runs = append(o.runs, tables)
			}
		}
	}
	return o
}

// none says that there is certainly no older data.
func (o Older) none() bool { return o.known && len(o.runs) == 0 }

// An olderCursor answers for keys in ascending order. Over a whole merge it
// passes each table once.
type olderCursor struct {
	known bool
	runs  [][]*manifest.Table // what is left of each
}

func (o Older) cursor() olderCursor {
	return olderCursor{known: o.known, runs: append([][]*manifest.Table(nil), o.runs...)}
}

// mayHold says whether an older table may hold key. Requires: key is not
// below that of an earlier call.
func (c *olderCursor) mayHold(key []byte) bool {
	if !c.known {
		return true
	}
	for i, tables := range c.runs {
		for len(tables) > 0 && bytes.Compare(tables[0].Largest, key) < 0 {
			tables = tables[1:]
		}
		c.runs[i] = tables
		if len(tables) > 0 && bytes.Compare(tables[0].Smallest, key) <= 0 {
			return true
		}
	}
	return false
}
