package compaction

import (
	"math"

	"github.com/shaledb/shale/manifest"
)

// A shape says how large each level of a version should be.
//
// Sizes are computed from the last level, which holds most of the data. There
// are as many levels as are needed so that each has at least 1/multiplier of the
// size of the next deeper one, down to BaseBytes. The highest of these levels is
// the base: level 0 is compacted directly into it, and the levels between level
// 0 and the base are empty. So a store has no more levels than its size needs.
//
// The level above the last may have 1/multiplier of the last level's size. The
// targets above that one grow by equal factors, from BaseBytes to that size. These
// factors are at most multiplier. A merge costs more, the larger the next level
// is, so with smaller factors less is written than with a full multiplier at each
// step. Still only little more than a tenth of the data lies above the last level.
type shape struct {
	base   int                       // the level that level 0 is compacted into
	target [manifest.NumLevels]int64 // bytes; 0: the level should be empty

	// tableSize is the target size of a table that a compaction writes, in bytes. It grows
	// with its level: a full level has about levelTables tables, but none smaller than
	// Options.TableSize or larger than maxGrowth times that.
	tableSize [manifest.NumLevels]int64
}

// maxGrowth is how many times larger the tables of a large level are than Options.TableSize.
const maxGrowth = 8

// tableSize returns the size of the tables of a level that has this number of bytes when it is full.
func (o *Options) tableSize(full int64) int64 {
	return min(max(full/o.levelTables, o.TableSize), maxGrowth*o.TableSize)
}

// shapeOf computes the shape of v. The base is never below a level
// that holds data or that takes part in a plan in flight. Otherwise
// a compaction of level 0 would carry newer data past older data.
func shapeOf(v *manifest.Version, o Options, busy *InFlight) shape {
	largest := int64(0)
	first := lastLevel
	for level := lastLevel; level > 0; level-- {
		if bytes := v.Bytes(level); bytes > 0 {
			first = level
			largest = max(largest, bytes)
		}
	}
	for _, p := range busy.plans {
		first = min(first, p.To)
		if p.From > 0 {
			first = min(first, p.From)
		}
	}
	s := shape{base: lastLevel}
	s.target[lastLevel] = max(largest, o.BaseBytes)
	for size := largest; s.base > 1 && size > o.BaseBytes; {
		size /= o.multiplier
		s.base--
	}
	size := max(float64(largest)/float64(o.multiplier), float64(o.BaseBytes))
	step := math.Pow(size/float64(o.BaseBytes), 1/float64(max(1, lastLevel-1-s.base)))
	for level := lastLevel - 1; level >= s.base; level-- {
		s.target[level] = int64(math.Round(size))
		size /= step
	}
	for level, full := range s.target {
		s.tableSize[level] = o.tableSize(min(full, largest))
	}
	// The store may have become too small for its upper levels. A level that still holds
	// data then keeps target 0 and is emptied by compactions. Until then it is the base.
	s.base = min(s.base, max(first, 1))
	return s
}

// scores returns how urgent the compaction of each level is. A
// level is due if its score is at least 1. The last level has no
// score. Tables that a plan in flight takes down do not count.
func scores(v *manifest.Version, o Options, busy *InFlight, s shape) (score [manifest.NumLevels]float64) {
	var leaving [manifest.NumLevels]int64
	for _, p := range busy.plans {
		for _, in := range p.Inputs {
			if in.level < p.To {
				leaving[in.level] += manifest.TotalsOf(in.Tables).Bytes
			}
		}
	}
	score[0] = max(float64(idleRuns(v, busy))/float64(o.Level0Trigger), float64(v.Bytes(0)-leaving[0])/float64(o.BaseBytes))
	for level := 1; level < lastLevel; level++ {
		bytes := v.Bytes(level) - leaving[level]
		switch {
		case bytes <= 0:
		case s.target[level] == 0:
			score[level] = 1 + float64(bytes)/float64(o.BaseBytes)
		default:
			score[level] = float64(bytes) / float64(s.target[level])
			if runs := v.Levels[level].Runs; runs[0].ID >= uint64(o.LevelRuns) && len(runs) > 1 {
				score[level] = max(score[level], 1) // the level has runs from a time when more were allowed
			}
		}
	}
	return score
}

// idleRuns returns how many runs of level 0 have no table in use.
func idleRuns(v *manifest.Version, busy *InFlight) int {
	runs := v.Levels[0].Runs
	used := make(map[uint64]bool)
	for _, p := range busy.plans {
		for _, in := range p.Inputs {
			if in.level == 0 {
				used[in.run] = true
			}
		}
	}
	if len(busy.aside) > 0 { // which is rare: the store is damaged
		for i := range runs {
			if busy.anyBusy(runs[i].Tables) {
				used[runs[i].ID] = true
			}
		}
	}
	return len(runs) - len(used)
}

// Debt estimates how many bytes compactions still have
// to read until no level is above its target size.
func Debt(v *manifest.Version, o Options) int64 {
	o = o.withDefaults()
	s := shapeOf(v, o, &InFlight{})
	debt, incoming := int64(0), int64(0)
	if l0 := v.Totals(0); len(v.Levels[0].Runs) >= o.Level0Trigger || l0.Bytes >= o.BaseBytes {
		incoming = l0.Bytes
		debt = l0.Bytes + v.Bytes(s.base)
	}
	for level := s.base; level < lastLevel; level++ {
		bytes := v.Bytes(level) + incoming
		incoming = max(0, bytes-s.target[level])
		if incoming == 0 {
			break
		}
		// The bytes above the target are merged with the part of the next level
		// that lies below them, about in proportion to their share of this level.
		share := float64(v.Bytes(level+1)) / float64(bytes)
		debt += incoming + int64(float64(incoming)*share)
	}
	return debt
}
