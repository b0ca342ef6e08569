package compaction

import (
	"bytes"

	"github.com/shaledb/shale/manifest"
)

// Older says for which keys older data may lie below a compaction's output. For these
// keys the compaction's tombstones must stay. The zero Older knows nothing, so every
// key may have older data. It does not change, and the merges of sub-ranges share it.
type Older struct {
	known bool
	runs  [][]*manifest.Table // the tables of each run in the plan's range, in the order of keys
}

// olderBelow returns the tables of v that overlap [lo, hi] and lie below the
// given run of level: in older runs of that level, and in deeper levels.
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

// none reports whether there is certainly no older data.
func (o Older) none() bool { return o.known && len(o.runs) == 0 }

// An olderCursor answers for keys in ascending order.
// It steps over each table once in a whole merge.
type olderCursor struct {
	known bool
	runs  [][]*manifest.Table // the tables of each run that do not end before the last key
}

// cursor returns a cursor at the beginning of the key range.
func (o Older) cursor() olderCursor {
	return olderCursor{known: o.known, runs: append([][]*manifest.Table(nil), o.runs...)}
}

// mayHold reports whether an older table may hold key.
// Requires: key is not below the key of an earlier call.
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
