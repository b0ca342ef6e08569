package compaction

import (
	"github.com/shaledb/shale/filterplan"
	"github.com/shaledb/shale/manifest"
)

// FilterTree describes to package filterplan where the keys of v lie. If p is not nil,
// it describes the tree as it will be when p is done, assuming that p drops no keys.
// Each level below level 0 has at least one run, which is empty if the level is empty.
func FilterTree(v *manifest.Version, p *Plan, o Options) filterplan.Tree {
	o = o.withDefaults()
	shape := shapeOf(v, o, &InFlight{})
	tree := filterplan.Tree{Base: shape.base}
	var sum manifest.Totals
	for i := range v.Levels {
		level := &tree.Levels[i]
		for j := range v.Levels[i].Runs {
			run := &v.Levels[i].Runs[j]
			totals := run.Totals()
			sum.Add(totals)
			level.Runs = append(level.Runs, filterplan.Run{ID: run.ID, Keys: totals.Keys})
		}
		if i > 0 && len(level.Runs) == 0 {
			level.Runs = []filterplan.Run{{}}
		}
	}
	keysPerByte := float64(sum.Keys) / float64(max(sum.Bytes, 1))
	tree.TableKeys = max(1, int(keysPerByte*float64(shape.tableSize[lastLevel])))
	if sum.Bytes > 0 {
		for level := 1; level < lastLevel; level++ {
			tree.Levels[level].FullKeys = uint64(float64(shape.target[level]) * keysPerByte)
		}
	}
	if p != nil {
		moveKeys(&tree, p)
	}
	return tree
}

// moveKeys moves the keys of p's inputs to the run that p writes.
func moveKeys(tree *filterplan.Tree, p *Plan) {
	to := &tree.Levels[p.To]
	for _, in := range p.Inputs {
		moved := manifest.TotalsOf(in.Tables).Keys
		if from := runOf(&tree.Levels[in.level], in.run); from != nil {
			from.Keys -= moved
		}
		output := runOf(to, p.outputRun)
		if output == nil { // p begins a run, which is the newest of its level
			to.Runs = append([]filterplan.Run{{ID: p.outputRun}}, to.Runs...)
			output = &to.Runs[0]
		}
		output.Keys += moved
	}
}

// runOf returns a run of the level, or nil if there is none with this ID.
func runOf(level *filterplan.Level, id uint64) *filterplan.Run {
	for i := range level.Runs {
		if level.Runs[i].ID == id {
			return &level.Runs[i]
		}
	}
	return nil
}
