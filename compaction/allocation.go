package compaction

import (
	"github.com/shaledb/shale/filterplan"
	"github.com/shaledb/shale/manifest"
)

// FilterBitsForPlan applies the entropy rule to the tables that p will write,
// in the tree as it will be then. average is Options.FilterBits of the store;
// memory, if not 0, are the bytes for all filters, which override it.
//
// An average is that of a tree at rest: what still lies in level 0 counts as if
// it were in the base level already, and what a level holds above its target as
// if it were in the next. A tree that has fallen behind would else write poor
// filters, and keep them for long, because of tables that are elsewhere a moment
// later. Memory is for all filters, where they are.
func FilterBitsForPlan(v *manifest.Version, p *Plan, o Options, average float64, memory int64) float64 {
	keys, actual := keysAfter(v, p)
	expected := expectedKeys(v, o)
	if memory > 0 && actual > 0 {
		average = float64(memory) * 8 / float64(actual)
	} else {
		base := &keys[BaseLevel(v, o)][0]
		for _, run := range keys[0] {
			base.keys += run.keys
		}
		keys[0] = nil
		sink(&keys, &expected)
	}
	in := filterplan.FilterInput{AverageBits: average, Out: -1}
	for level := range keys {
		for _, run := range keys[level] {
			// A level that is filling counts for half of what it will hold
			// at least, so that a fresh one does not take bits from all.
			n := max(run.keys, expected[level]/2/uint64(len(keys[level])))
			if n == 0 {
				continue
			}
			if level == p.To && run.id == p.outputRun {
				in.Out = len(in.Runs)
			}
			share := filterplan.RunShare{Keys: n, Probe: min(1, o.Probe[level]/float64(len(keys[level])))}
			if level == lastLevel && o.FuseLast {
				share.FuseKeys = tableKeys(v, o)
			}
			in.Runs = append(in.Runs, share)
		}
	}
	if in.Out < 0 {
		return 0 // nothing is written
	}
	return filterplan.FilterBits(in)
}

// runKeys is how many keys a run holds.
type runKeys struct {
	id   uint64
	keys uint64
}

// keysAfter counts the keys of each run as if p were done and had dropped
// nothing. Every level below level 0 has a run, if maybe an empty one.
func keysAfter(v *manifest.Version, p *Plan) (keys [manifest.NumLevels][]runKeys, total uint64) {
	for level := range v.Levels {
		for i := range v.Levels[level].Runs {
			run := &v.Levels[level].Runs[i]
			keys[level] = append(keys[level], runKeys{id: run.ID, keys: run.Totals().Keys})
			total += run.Totals().Keys
		}
		if level > 0 && len(keys[level]) == 0 {
			keys[level] = []runKeys{{}}
		}
	}
	for _, in := range p.Inputs {
		moved := manifest.TotalsOf(in.Tables).Keys
		addKeys(keys[in.Level], in.Run, -moved)
		if !addKeys(keys[p.To], p.outputRun, moved) { // a new run
			keys[p.To] = append([]runKeys{{p.outputRun, moved}}, keys[p.To]...)
		}
	}
	return keys, total
}

// addKeys adds n, which may be negative modulo 2^64, to the run's keys. It says
// whether there is such a run.
func addKeys(runs []runKeys, id uint64, n uint64) bool {
	for i := range runs {
		if runs[i].id == id {
			runs[i].keys += n
			return true
		}
	}
	return false
}

// sink moves what levels hold above what is expected to the level below, from
// the oldest run, as far as that goes.
func sink(keys *[manifest.NumLevels][]runKeys, expected *[manifest.NumLevels]uint64) {
	for level := 1; level < lastLevel; level++ {
		sum := uint64(0)
		for _, run := range keys[level] {
			sum += run.keys
		}
		if most := expected[level]; most > 0 && sum > most {
			oldest := &keys[level][len(keys[level])-1]
			excess := min(sum-most, oldest.keys)
			keys[level+1][0].keys += excess
			oldest.keys -= excess
		}
	}
}

// tableKeys returns how many keys a table of full size has.
func tableKeys(v *manifest.Version, o Options) int {
	var sum manifest.Totals
	for level := range v.Levels {
		sum.Add(v.Totals(level))
	}
	perByte := float64(sum.Keys) / float64(max(sum.Bytes, 1))
	return max(1, int(perByte*float64(o.withDefaults().TableSize)))
}

// expectedKeys returns for each level between level 0 and the last how many
// keys it will hold when it is full; 0 if it is not used.
func expectedKeys(v *manifest.Version, o Options) (expected [manifest.NumLevels]uint64) {
	var sum manifest.Totals
	for level := range v.Levels {
		sum.Add(v.Totals(level))
	}
	if sum.Bytes == 0 {
		return expected
	}
	keysPerByte := float64(sum.Keys) / float64(sum.Bytes)
	shape := shapeOf(v, o.withDefaults(), &InFlight{})
	for level := 1; level < lastLevel; level++ {
		expected[level] = uint64(float64(shape.target[level]) * keysPerByte)
	}
	return expected
}
