package compaction

import (
	"math"

	"github.com/shaledb/shale/manifest"
)

// A shape is how large the levels of a version should be.
//
// Sizes are counted from the last level, which holds most of the data: there are
// as many levels as are needed for each to have at least a multiplier-th of the
// one below, down to BaseBytes. The highest is the base: level 0 is compacted
// right into it, and the levels between are empty. So a store of any size has no
// more levels than it needs. The one above the last may have a multiplier-th of
// it, and the others grow evenly from BaseBytes to that, since a merge costs the
// more the larger the level below is: so little more than a tenth of the data lies
// above the last, and what is written is less than with equal steps from the last.
type shape struct {
	base   int // where level 0 is compacted to
	target [manifest.NumLevels]int64
}

// shapeOf computes the shape. Levels between level 0 and the base are empty,
// also in what plans in flight will install: else newer data could sink below
// older.
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
	// Levels above that hold data although the store has become too small for
	// them keep target 0, and are emptied.
	s.base = min(s.base, max(first, 1))
	return s
}

// scores returns how due the compaction of each level is: it is due from 1 up.
// The last level has none. Tables that are on their way down do not count.
func scores(v *manifest.Version, o Options, busy *InFlight, s shape) (score [manifest.NumLevels]float64) {
	var leaving [manifest.NumLevels]int64
	for _, p := range busy.plans {
		for _, in := range p.Inputs {
			if in.level < p.To {
				leaving[in.level] += manifest.TotalsOf(in.Tables).Bytes
			}
		}
	}
	idle := 0
	for _, run := range v.Levels[0].Runs {
		if !busy.anyBusy(run.Tables) {
			idle++
		}
	}
	score[0] = float64(idle) / float64(o.l0Trigger)
	if idle > 0 {
		score[0] = max(score[0], float64(v.Bytes(0)-leaving[0])/float64(o.BaseBytes))
	}
	for level := 1; level < lastLevel; level++ {
		bytes := v.Bytes(level) - leaving[level]
		switch {
		case bytes <= 0:
		case s.target[level] == 0:
			score[level] = 1 + float64(bytes)/float64(o.BaseBytes)
		default:
			score[level] = float64(bytes) / float64(s.target[level])
			if runs := v.Levels[level].Runs; runs[0].ID >= uint64(o.LevelRuns) && len(runs) > 1 {
				score[level] = max(score[level], 1) // made when more were allowed
			}
		}
	}
	return score
}

// Debt estimates how many bytes compactions have to read before no level is
// over its size.
func Debt(v *manifest.Version, o Options) int64 {
	o = o.withDefaults()
	s := shapeOf(v, o, &InFlight{})
	debt, incoming := int64(0), int64(0)
	if l0 := v.Totals(0); len(v.Levels[0].Runs) >= o.l0Trigger || l0.Bytes >= o.BaseBytes {
		incoming = l0.Bytes
		debt = l0.Bytes + v.Bytes(s.base)
	}
	for level := s.base; level < lastLevel; level++ {
		bytes := v.Bytes(level) + incoming
		incoming = max(0, bytes-s.target[level])
		if incoming == 0 {
			break
		}
		// The excess is merged with its share of the level below.
		share := float64(v.Bytes(level+1)) / float64(bytes)
		debt += incoming + int64(float64(incoming)*share)
	}
	return debt
}
