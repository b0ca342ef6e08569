package compaction

import (
	"fmt"
	"testing"

	"github.com/shaledb/shale/filterplan"
	"github.com/shaledb/shale/manifest"
)

// The description of a tree has the keys where they lie when a plan is done.
// It has a run for each level below level 0, even if the level is empty.
func TestFilterTree(t *testing.T) {
	v, err := manifest.ParseVersion(`
L0.9: 000009:[a-z]{size=32M,keys=300000,entries=300000}
L0.8: 000008:[a-z]{size=32M,keys=300000,entries=300000}
L5: 000005:[a-m]{size=64M,keys=600000,entries=600000} 000004:[n-z]{size=64M,keys=600000,entries=600000}
L6: 000006:[a-z]{size=1200M,keys=12000000,entries=12000000}
`)
	if err != nil {
		t.Fatal(err)
	}
	of := func(level, run int) []*manifest.Table { return v.Levels[level].Runs[run].Tables }
	for _, c := range []struct {
		name       string
		plan       *Plan
		l0, l5, l6 string // ID and keys of runs
	}{
		{"as it is", nil, "[{9 300000} {8 300000}]", "[{0 1200000}]", "[{0 12000000}]"},
		{"level 0 into level 5", &Plan{From: 0, To: 5, Inputs: []Input{
			{level: 0, run: 9, Tables: of(0, 0)}, {level: 0, run: 8, Tables: of(0, 1)}, {level: 5, Tables: of(5, 0)},
		}}, "[{9 0} {8 0}]", "[{0 1800000}]", "[{0 12000000}]"},
		{"half of level 5 into level 6", &Plan{From: 5, To: 6, Inputs: []Input{
			{level: 5, Tables: of(5, 0)[:1]}, {level: 6, Tables: of(6, 0)},
		}}, "[{9 300000} {8 300000}]", "[{0 600000}]", "[{0 12600000}]"},
		{"level 0 into a new run of level 5", &Plan{From: 0, To: 5, outputRun: 3, Inputs: []Input{
			{level: 0, run: 9, Tables: of(0, 0)},
		}}, "[{9 0} {8 300000}]", "[{3 300000} {0 1200000}]", "[{0 12000000}]"},
	} {
		tree := FilterTree(v, c.plan, Options{})
		for level, want := range map[int]string{0: c.l0, 1: "[{0 0}]", 5: c.l5, 6: c.l6} {
			if got := fmt.Sprint(tree.Levels[level].Runs); got != want {
				t.Errorf("%s: the runs of level %d are %s, want %s", c.name, level, got, want)
			}
		}
		// 13.8 million keys in 1392 MiB; level 5 may have 128 MiB, a table 16 MiB.
		if full := tree.Levels[5].FullKeys; full != 1_268_965 || tree.Levels[4].FullKeys != 0 || tree.Levels[6].FullKeys != 0 {
			t.Errorf("%s: level 5 is full with %d keys, want 1268965", c.name, full)
		}
		if tree.Base != 5 || tree.TableKeys != 158_620 {
			t.Errorf("%s: base level %d and tables of %d keys, want 5 and 158620", c.name, tree.Base, tree.TableKeys)
		}
	}
	if got := FilterTree(&manifest.Version{}, nil, Options{}); got.TableKeys != 1 || got.Levels[6].Runs[0] != (filterplan.Run{}) {
		t.Errorf("an empty version is described as %+v", got)
	}
}
