package main

import (
	"context"
	"time"
)

// An experiment measures the cells of one figure.
type experiment struct {
	name   string
	what   string
	weight int // the seconds it takes, roughly
	run    func(context.Context, *runner) error
}

func experiments() []experiment {
	return []experiment{
		{"F1", "what filters save, by number of levels", 45, measureLevels},
		{"F2", "false positives, by bits a key", 60, measureBits},
		{"F3", "how long one miss takes", 10, measureLatency},
		{"F4", "lookups a second, by block cache and hit ratio", 70, measureThroughput},
		{"F5", "block reads, by number of runs", 15, measureRuns},
		{"F6", "what filters cost", 70, measurePrice},
		{"F7", "what filters save, by size of values", 30, measureValues},
		{controls, "controls", 10, measureControls},
	}
}

// controls is the name of the control experiments, which are in no figure.
const controls = "C"

// An effort is how much is measured.
type effort struct {
	keys        int // loaded at most; 0: all
	lookups     int // of a pass
	coldLookups int // of a pass with cold files
	levels      int // of the deepest tree
	fillKeys    int // loaded into stores that are made many times
	limit       time.Duration
	points      int // on an axis at most; 0: all
}

func (c config) effort() effort {
	if c.test != nil {
		return *c.test
	}
	if c.short {
		return effort{keys: 6000, lookups: 1500, coldLookups: 40, levels: 3, fillKeys: 3000, limit: 100 * time.Millisecond}
	}
	return effort{lookups: 100_000, coldLookups: 1500, levels: 5, fillKeys: 300_000, limit: 2 * time.Second}
}
