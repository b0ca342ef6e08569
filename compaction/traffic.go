package compaction

import (
	"math"

	"github.com/shaledb/shale/manifest"
)

// How much compactions read and write, without a store: arithmetic over the shape that the planner gives it.

// A LevelTraffic says what a level has, and how much of it is read and written for each byte that is flushed.
type LevelTraffic struct {
	Level     int
	Bytes     int64   // of its tables
	TableSize int64   // about the size of one, in bytes
	Written   float64 // bytes of tables that come into it, by flushes or compactions
	Read      float64 // bytes of its tables that compactions read
}

// An estimate says what a byte that comes into a level costs there, and how long a table becomes. Of a level, less than the half is
// rewritten for what is as large as the level above, because the planner picks what has the fewest bytes below it. TestTraffic
// holds these against simulations.
type estimate struct {
	base      float64 // of the base level, for all of level 0
	rewritten float64 // of a level, for each time that it is larger than the one above
	last      float64 // the same of the last one
	table     float64 // of the size that a table may have; those of the last level have nearly all of it
}

var (
	oneRun  = estimate{base: 0.65, rewritten: 0.35, last: 0.34, table: 0.75}
	twoRuns = estimate{base: 0.50, rewritten: 0.16, last: 0.42, table: 0.57} // of a store whose levels may have two runs
)

// lastPart is the part of a store that is in its last level.
const lastPart = 0.90

// Traffic estimates the compactions of a store that has this number of bytes in its tables, if each flush makes a table of
// flushed bytes, with keys from all of the range. It lists the levels that have some, from level 0 down.
func Traffic(bytes, flushed int64, o Options) []LevelTraffic {
	var v manifest.Version
	v.Levels[lastLevel] = manifest.Level{Runs: []manifest.Run{{Tables: []*manifest.Table{{Size: int64(lastPart * float64(bytes))}}}}}
	o = o.forVersion(&v)
	s := shapeOf(&v, o, &InFlight{})
	level0 := math.Min(float64(o.Level0Trigger)*float64(flushed), float64(o.BaseBytes))
	parts := oneRun
	if o.LevelRuns > 1 {
		parts = twoRuns
	}
	all := []LevelTraffic{{Bytes: int64(level0 / 2), TableSize: flushed, Written: 1, Read: 1}}
	for level := s.base; level < manifest.NumLevels; level++ {
		t := LevelTraffic{Level: level, Bytes: s.target[level], TableSize: int64(parts.table * float64(s.tableSize[level]))}
		above, times := float64(s.target[level-1]), parts.rewritten
		if level == lastLevel {
			t.Bytes, t.TableSize, times = v.Bytes(level), s.tableSize[level], parts.last
		}
		if level == s.base {
			above, times = level0, parts.base
		}
		t.Written = 1 + times*float64(t.Bytes)/above
		t.Read = t.Written
		all = append(all, t)
	}
	return all
}
