package filterplan

import (
	"slices"

	"github.com/shaledb/shale/internal/base"
)

// lastLevel holds most of the data of a store, in one run.
const lastLevel = base.NumLevels - 1

// A Tree describes where the keys of a store lie. Its owner knows the tables; a
// Tree has only what the division of filter memory depends on.
type Tree struct {
	Levels [base.NumLevels]Level
	// Base is the level that level 0 is compacted into.
	Base int
	// TableKeys is how many keys a table of full size has.
	TableKeys int
}

// A Level is one level of a Tree.
type Level struct {
	Runs []Run // the newest first
	// FullKeys is how many keys the level will hold when it is full. It is 0 if
	// the level is not in use, and for level 0 and the last level, which have no
	// such limit.
	FullKeys uint64
}

// A Run is a run of a Level.
type Run struct {
	ID   uint64 // differs from that of other runs of the level
	Keys uint64
}

// keys returns how many keys the runs of all levels hold.
func (t *Tree) keys() (sum uint64) {
	for i := range t.Levels {
		sum += t.Levels[i].keys()
	}
	return sum
}

func (l *Level) keys() (sum uint64) {
	for _, run := range l.Runs {
		sum += run.Keys
	}
	return sum
}

// addToNewest adds keys to the newest run, and makes a run if there is none.
func (l *Level) addToNewest(keys uint64) {
	if len(l.Runs) == 0 {
		l.Runs = []Run{{}}
	}
	l.Runs[0].Keys += keys
}

// settled returns the tree as it will be when compactions have caught up: what
// lies in level 0 is in the base level, and what a level holds above its limit is
// in the next one.
func (t Tree) settled() Tree {
	for i := range t.Levels {
		t.Levels[i].Runs = slices.Clone(t.Levels[i].Runs)
	}
	t.Levels[t.Base].addToNewest(t.Levels[0].keys())
	t.Levels[0].Runs = nil
	for i := 1; i < lastLevel; i++ {
		level := &t.Levels[i]
		if sum := level.keys(); level.FullKeys > 0 && sum > level.FullKeys {
			oldest := &level.Runs[len(level.Runs)-1]
			excess := min(sum-level.FullKeys, oldest.Keys)
			oldest.Keys -= excess
			t.Levels[i+1].addToNewest(excess)
		}
	}
	return t
}
