package filterplan

import "github.com/shaledb/shale/internal/base"

// A Plan says how many bits a key the filters of each run of a tree should have.
// It does not change once it is made.
type Plan struct {
	flushBits float64
	levels    [base.NumLevels][]runBits
}

// runBits is what a Plan says of a run.
type runBits struct {
	id   uint64
	bits float64
}

// Plan divides the memory for filters among the runs
// of a tree by the entropy rule (see allocate).
//
// AverageBits is the average of the tree at rest (Tree.settled). A tree whose compactions
// have fallen behind has tables that will soon lie elsewhere. If these counted where they
// are, Plan would choose poor filters for others, which keep them for a long time. Memory is
// different: it is a limit at any time, so it is divided among the runs where they are now.
//
// A level that is filling up counts for at least half of what it will hold.
// Otherwise a level that has just begun would take bits from all others.
func (p Policy) Plan(tree Tree, shares ProbeShares) Plan {
	plan := Plan{flushBits: p.FlushBits()}
	average := p.AverageBits
	if keys := tree.keys(); p.Memory > 0 && keys > 0 && average > 0 {
		average = float64(p.Memory) * 8 / float64(keys)
	} else {
		tree = tree.settled()
	}
	var runs []runShare
	var places []*runBits // where the bits of each of runs belong
	for i := range tree.Levels {
		level := &tree.Levels[i]
		n := len(level.Runs)
		plan.levels[i] = make([]runBits, n)
		for j, run := range level.Runs {
			plan.levels[i][j].id = run.ID
			keys := max(run.Keys, level.FullKeys/2/uint64(n))
			if keys == 0 {
				continue
			}
			share := runShare{keys: keys, probe: min(1, shares[i]/float64(n))}
			if i == lastLevel && p.LastLevelFuse {
				share.fuseKeys = tree.TableKeys
			}
			runs = append(runs, share)
			places = append(places, &plan.levels[i][j])
		}
	}
	for i, bits := range allocate(runs, average) {
		places[i].bits = bits
	}
	return plan
}

// Bits returns how many bits a key the filters of a run should have; 0: they should
// not exist. It is 0 also for a run that was not in the tree. The runs of level 0
// have what flushes gave them.
func (p Plan) Bits(level int, run uint64) float64 {
	if level == 0 {
		return p.flushBits
	}
	for _, r := range p.levels[level] {
		if r.id == run {
			return r.bits
		}
	}
	return 0
}
