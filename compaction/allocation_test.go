package compaction

import (
	"testing"

	"github.com/shaledb/shale/manifest"
)

func TestFilterBitsForPlan(t *testing.T) {
	v, err := manifest.ParseVersion(`
L0.9: 000009:[a-z]{size=32M,keys=300000,entries=300000}
L0.8: 000008:[a-z]{size=32M,keys=300000,entries=300000}
L5: 000005:[a-z]{size=128M,keys=1200000,entries=1200000}
L6: 000006:[a-z]{size=1200M,keys=12000000,entries=12000000}
`)
	if err != nil {
		t.Fatal(err)
	}
	into5 := &Plan{From: 0, To: 5, Inputs: []Input{
		{Level: 0, Run: 9, Tables: v.Levels[0].Runs[0].Tables},
		{Level: 0, Run: 8, Tables: v.Levels[0].Runs[1].Tables},
		{Level: 5, Tables: v.Levels[5].Runs[0].Tables},
	}}
	into6 := &Plan{From: 5, To: 6, Inputs: []Input{
		{Level: 5, Tables: v.Levels[5].Runs[0].Tables}, {Level: 6, Tables: v.Levels[6].Runs[0].Tables},
	}}
	full, err := manifest.ParseVersion(`
L0.9: 000009:[a-z]{size=64M,keys=600000,entries=600000}
L5: 000005:[a-m]{size=300M,keys=3000000,entries=3000000} 000004:[n-z]{size=300M,keys=3000000,entries=3000000}
L6: 000006:[a-z]{size=1200M,keys=12000000,entries=12000000}
`)
	if err != nil {
		t.Fatal(err)
	}
	full5 := &Plan{From: 0, To: 5, Inputs: []Input{
		{Level: 0, Run: 9, Tables: full.Levels[0].Runs[0].Tables}, {Level: 5, Tables: full.Levels[5].Runs[0].Tables}}}
	full6 := &Plan{From: 5, To: 6, Inputs: []Input{
		{Level: 5, Tables: full.Levels[5].Runs[0].Tables[:1]}, {Level: 6, Tables: full.Levels[6].Runs[0].Tables}}}
	cases := []struct {
		name    string
		plan    *Plan
		average float64
		memory  int64
		lo, hi  float64
	}{
		// Shares 1.8 and 12 million.
		{"into level 5", into5, 10, 0, 13, 14.5},
		// Level 5 is left empty, but counts for half of what it will hold.
		{"into level 6", into6, 10, 0, 9.2, 9.95},
		// Level 5 holds four times what it is to hold: the bits are those for when it
		// does not any more.
		{"into a level 5 that is too full", full5, 10, 0, 13, 15.2},
		{"below a level 5 that is too full", full6, 10, 0, 9.2, 9.95},
		{"into a level 5 that is too full, by memory", full5, 10, 10 * 18600000 / 8, 10.5, 11.5},
		{"memory of 10 bits a key", into6, 20, 10 * 13800000 / 8, 9.2, 9.95},
		{"memory for all", into6, 10, 1 << 30, 24, 24},
		{"memory for none", into6, 10, 1, 0, 0},
		{"no filters", into6, 0, 0, 0, 0},
	}
	for _, c := range cases {
		v := v
		if c.plan == full5 || c.plan == full6 {
			v = full
		}
		got := FilterBitsForPlan(v, c.plan, Options{}, c.average, c.memory)
		if got < c.lo || got > c.hi {
			t.Errorf("%s: %.2f bits, want %v to %v", c.name, got, c.lo, c.hi)
		}
	}
}
