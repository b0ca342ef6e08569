package filterplan_test

import (
	"fmt"

	"github.com/shaledb/shale/bloom"
	"github.com/shaledb/shale/filterplan"
)

// A store has 10 bits a key on average. Level 5 has a million keys, and level 6 ten
// million.
func ExamplePolicy_Plan() {
	tree := filterplan.Tree{Base: 5}
	tree.Levels[5] = filterplan.Level{Runs: []filterplan.Run{{Keys: 1_000_000}}, FullKeys: 1_000_000}
	tree.Levels[6] = filterplan.Level{Runs: []filterplan.Run{{Keys: 10_000_000}}}
	plan := filterplan.Policy{AverageBits: 10}.Plan(tree, filterplan.ProbeShares{})

	above, last := plan.Bits(5, 0), plan.Bits(6, 0)
	fmt.Printf("bits a key: %.1f and %.1f\n", above, last)
	fmt.Printf("blocks read for an absent key: %.4f\n", bloom.PredictFPR(above)+bloom.PredictFPR(last))
	fmt.Printf("with 10 bits for both: %.4f\n", 2*bloom.PredictFPR(10))
	// Output:
	// bits a key: 14.3 and 9.6
	// blocks read for an absent key: 0.0126
	// with 10 bits for both: 0.0192
}
