package tree

import (
	"slices"
	"testing"

	"github.com/shaledb/shale/manifest"
)

// What was estimated for a version is kept for it. Later ones know it of the runs at their end in
// which few tables have changed since, also if nobody has asked a version in between.
func TestVersion_Estimates(t *testing.T) {
	const n = 2 * driftShare // so two tables of the last run may change
	big := newBigTree(t, n)
	computed, knew, largest, partial := 0, 0, 0, true
	estimate := func(known Estimates) Estimates {
		computed++
		knew, largest = len(known.LiveShares), known.Largest
		var e Estimates
		for range len(big.tree.version.Runs) - knew {
			e.LiveShares, e.KeyShares = append(e.LiveShares, float64(computed)), append(e.KeyShares, float64(computed))
		}
		return Estimates{append(e.LiveShares, known.LiveShares...), append(e.KeyShares, known.KeyShares...), computed, partial}
	}
	// check asks for the estimates. want are the numbers of the calls that have computed them.
	check := func(what string, known int, want ...float64) {
		t.Helper()
		e := big.tree.version.Estimates(estimate)
		if !slices.Equal(e.LiveShares, want) || !slices.Equal(e.KeyShares, want) || knew != known {
			t.Errorf("%s: %d runs were known and the estimates are %v, want %d and %v", what, knew, *e, known, want)
		}
		if e.Largest != computed || knew > 0 && largest == 0 {
			t.Errorf("%s: the largest run is %d, and was known as %d, want %d", what, e.Largest, largest, computed)
		}
	}
	replace := func(i int) {
		old := big.tree.version.Meta.Levels[6].Runs[0].Tables[i]
		m := big.table(uint64(i)<<32, uint64(i)<<32|1<<31)
		big.install(t, &manifest.Edit{
			Removed: []manifest.Removed{{Level: 6, Num: old.Num}},
			Added:   []manifest.Added{{Level: 6, Run: 1, Table: m.Meta}},
		}, []*Table{m})
	}
	flush := func() {
		m := big.table(0, n<<32)
		big.install(t, &manifest.Edit{Added: []manifest.Added{{Level: 0, Run: uint64(m.Meta.Num), Table: m.Meta}}}, []*Table{m})
	}
	first := big.tree.version
	check("while filters are read", 0, 1)
	partial = false
	check("at first", 0, 2)
	check("again", 0, 2)
	flush()
	flush()
	check("after two flushes", 1, 3, 3, 2)
	replace(3)
	check("after a small compaction", 3, 3, 3, 2)
	replace(4)
	flush()
	check("after another one and a flush", 3, 5, 3, 3, 2)
	replace(5)
	check("after a third compaction", 0, 6, 6, 6, 6)
	replace(6)
	check("after a fourth", 4, 6, 6, 6, 6)
	if e := first.Estimates(estimate); e.LiveShares[0] != 2 {
		t.Errorf("those of the first version are %v now", *e)
	}
}
