package filterplan

import (
	"math"
	"testing"
)

// treeOf returns a tree with level 5 as its base.
func treeOf(level0 []Run, full5, keys5, keys6 uint64) Tree {
	tree := Tree{Base: 5, TableKeys: 150_000}
	for i := 1; i < len(tree.Levels); i++ {
		tree.Levels[i].Runs = []Run{{}}
	}
	tree.Levels[0].Runs = level0
	tree.Levels[5].FullKeys = full5
	tree.Levels[5].Runs[0].Keys = keys5
	tree.Levels[6].Runs[0].Keys = keys6
	return tree
}

func TestPolicy_Plan(t *testing.T) {
	// Level 0 was compacted into level 5, and then level 5 into level 6.
	into5 := treeOf([]Run{{9, 0}, {8, 0}}, 1_270_000, 1_800_000, 12_000_000)
	into6 := treeOf([]Run{{9, 300_000}, {8, 300_000}}, 1_270_000, 0, 13_200_000)
	// The same, where level 5 holds several times what it should.
	full5 := treeOf([]Run{{9, 0}}, 1_280_000, 6_600_000, 12_000_000)
	full6 := treeOf([]Run{{9, 600_000}}, 1_280_000, 3_000_000, 15_000_000)
	cases := []struct {
		name   string
		policy Policy
		tree   Tree
		level  int
		lo, hi float64
	}{
		{"level 5", Policy{AverageBits: 10}, into5, 5, 13, 14.5},
		{"level 6 below an empty level 5, which counts for half of what it will hold",
			Policy{AverageBits: 10}, into6, 6, 9.2, 9.95},
		{"a level 5 that is too full gets the bits for when it is not any more",
			Policy{AverageBits: 10}, full5, 5, 13, 15.2},
		{"level 6 below a level 5 that is too full", Policy{AverageBits: 10}, full6, 6, 9.2, 9.95},
		{"a level 5 that is too full, with a limit of memory at any time",
			Policy{AverageBits: 10, Memory: 10 * 18_600_000 / 8}, full5, 5, 10.5, 11.5},
		{"memory of 10 bits a key", Policy{AverageBits: 20, Memory: 10 * 13_800_000 / 8}, into6, 6, 9.2, 9.95},
		{"memory for all that is useful", Policy{AverageBits: 10, Memory: 1 << 30}, into6, 6, 24, 24},
		{"memory for nothing", Policy{AverageBits: 10, Memory: 1}, into6, 6, 0, 0},
		{"no filters", Policy{AverageBits: -1}, into6, 6, 0, 0},
		{"no filters, but memory", Policy{AverageBits: -1, Memory: 1 << 30}, into6, 6, 0, 0},
		{"fuse filters", Policy{AverageBits: 10, LastLevelFuse: true}, into6, 6, 9, 9.99},
		{"level 0", Policy{AverageBits: 10}, into6, 0, FlushBits, FlushBits},
		{"level 0 without filters", Policy{AverageBits: -1}, into6, 0, 0, 0},
	}
	for _, c := range cases {
		plan := c.policy.Plan(c.tree, ProbeShares{})
		run := c.tree.Levels[c.level].Runs[0].ID
		if got := plan.Bits(c.level, run); got < c.lo || got > c.hi {
			t.Errorf("%s: %.2f bits, want %v to %v", c.name, got, c.lo, c.hi)
		}
		if got := plan.Bits(6, 7); got != 0 {
			t.Errorf("%s: a run that is not in the tree gets %v bits, want 0", c.name, got)
		}
	}
}

// A level that is rarely asked in vain gets fewer bits, and its share is divided
// among its runs.
func TestPolicy_Plan_ProbeShares(t *testing.T) {
	tree := treeOf(nil, 1_200_000, 1_200_000, 12_000_000)
	tree.Levels[5].Runs = []Run{{1, 600_000}, {0, 600_000}}
	policy := Policy{AverageBits: 6}
	all := policy.Plan(tree, ProbeShares{1, 1, 1, 1, 1, 2, 1})
	few := policy.Plan(tree, ProbeShares{1, 1, 1, 1, 1, 2, 0.1})
	if a, f := all.Bits(6, 0), few.Bits(6, 0); f > a-0.2 {
		t.Errorf("a last level that is rarely asked in vain gets %.2f bits, and %.2f if it is always", f, a)
	}
	if a, b := few.Bits(5, 1), few.Bits(5, 0); math.Abs(a-b) > 1e-9 || a <= all.Bits(5, 1) {
		t.Errorf("two equal runs get %.2f and %.2f bits, want the same and more than %.2f", a, b, all.Bits(5, 1))
	}
	if unknown := policy.Plan(tree, ProbeShares{}); unknown.Bits(6, 0) != policy.Plan(tree, ProbeShares{2, 2, 2, 2, 2, 2, 2}).Bits(6, 0) {
		t.Error("shares that are not known are not taken for all lookups")
	}
}

func TestTree_Settled(t *testing.T) {
	tree := treeOf([]Run{{9, 100}, {8, 50}}, 1000, 2000, 10_000)
	tree.Levels[5].Runs = []Run{{2, 800}, {1, 900}, {0, 300}}
	got := tree.settled()
	// Level 5 would have 2150 keys, 1150 too many. Only its oldest run goes down.
	if l := got.Levels[5].Runs; len(got.Levels[0].Runs) != 0 || l[0].Keys != 950 || l[1].Keys != 900 || l[2].Keys != 0 || got.Levels[6].Runs[0].Keys != 10_300 {
		t.Errorf("settled: %+v", got)
	}
	if got.keys() != tree.keys() {
		t.Errorf("%d keys when settled, %d before", got.keys(), tree.keys())
	}
	var empty Tree
	empty.Levels[0].Runs, empty.Base = []Run{{1, 7}}, 6
	if got := empty.settled(); got.Levels[6].Runs[0].Keys != 7 {
		t.Errorf("settled into a level without runs: %+v", got)
	}
}
