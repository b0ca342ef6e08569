package tree

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/manifest"
)

// rewriteSidecars returns an edit that gives new sidecars to some tables.
func (t *bigTree) rewriteSidecars(some func(m *manifest.Table) bool) (e *manifest.Edit, beside []*Sidecar) {
	e = &manifest.Edit{}
	for level := range t.tree.version.Meta.Levels {
		for _, r := range t.tree.version.Meta.Levels[level].Runs {
			for _, m := range r.Tables {
				if some(m) {
					s := &Sidecar{Meta: &manifest.Sidecar{Num: t.next, Size: 100}}
					t.next++
					beside = append(beside, s)
					e.Sidecars = append(e.Sidecars, manifest.SidecarChange{Level: level, Num: m.Num, Sidecar: s.Meta})
				}
			}
		}
	}
	return e, beside
}

// needed returns the files that some versions have.
func needed(held []*Version) map[string]bool {
	names := make(map[string]bool)
	for _, v := range held {
		for m := range v.Meta.Tables() {
			names[base.TableName(m.Num)] = true
			if m.Sidecar != nil {
				names[base.FilterName(m.Sidecar.Num)] = true
			}
		}
	}
	return names
}

// checkFiles compares the files that the tree has with those that versions in use need. all are
// those that there ever were, and each of them is gone once, or not at all.
func (t *bigTree) checkFiles(tb testing.TB, held []*Version, all map[string]bool) {
	tb.Helper()
	want := needed(held)
	got := make(map[string]bool)
	for num := range t.tree.tables {
		got[base.TableName(num)] = true
	}
	for num := range t.tree.sidecars {
		got[base.FilterName(num)] = true
	}
	gone := make(map[string]bool)
	for _, name := range t.gone {
		if gone[name] || want[name] {
			tb.Fatalf("%s is gone, twice: %v, needed: %v", name, gone[name], want[name])
		}
		gone[name] = true
	}
	for name := range want {
		all[name] = true
	}
	for name := range all {
		if want[name] != got[name] || want[name] == gone[name] {
			tb.Fatalf("%s: needed %v, the tree has it: %v, gone: %v", name, want[name], got[name], gone[name])
		}
	}
}

// TestLifespan makes random edits, also of sidecars, while users take and release versions in any
// order. Each file goes with the last version that has it, neither earlier nor later.
func TestLifespan(t *testing.T) {
	seed := testenv.Seed(t)
	rng := rand.New(rand.NewPCG(seed, 3))
	big := newBigTree(t, 40)
	held := []*Version{big.tree.version} // the first is the current one
	all := make(map[string]bool)
	for range 600 {
		switch n := rng.IntN(4); {
		case n == 0 && len(held) < 6:
			held[0].refs.Add(1)
			held = append(held, held[0])
		case n == 1 && len(held) > 1:
			i := 1 + rng.IntN(len(held)-1)
			v := held[i]
			held = slices.Delete(held, i, i+1)
			big.tree.Release(v)
		case n == 2:
			e, beside := big.rewriteSidecars(func(*manifest.Table) bool { return rng.IntN(10) == 0 })
			big.install(t, e, nil, beside...)
		default:
			e, opened := big.randomEdit(rng)
			big.install(t, e, opened)
		}
		held[0] = big.tree.version
		big.checkFiles(t, held, all)
	}
	// Close, with versions that are still in use. They end in any order.
	last := big.tree.version
	big.tree.Close()
	rng.Shuffle(len(held), func(i, j int) { held[i], held[j] = held[j], held[i] })
	for len(held) > 0 {
		v := held[0]
		held = held[1:]
		big.tree.Release(v)
		big.checkFiles(t, held, all)
	}
	if last.refs.Load() != 0 || len(big.tree.zombies)+len(big.tree.inUse) > 0 || len(big.tree.tables) > 0 {
		t.Errorf("after the last release: %d references, %d zombies, %d tables", last.refs.Load(), len(big.tree.zombies), len(big.tree.tables))
	}
	t.Logf("%d files came and went", len(all))
}

// TestRelease_ByAReader releases the last reference on an old version, from which many tables have
// left. That only hands the version over. Its tables go when the files are removed.
func TestRelease_ByAReader(t *testing.T) {
	const n = 1000
	big := newBigTree(t, n)
	held := big.tree.version
	held.refs.Add(1)
	e := &manifest.Edit{}
	for m := range held.Meta.Tables() {
		e.Removed = append(e.Removed, manifest.Removed{Level: 6, Num: m.Num, Table: m})
	}
	big.install(t, e, nil)
	big.tree.env.Remove = func() {}
	if allocs := testing.AllocsPerRun(1, func() {
		held.refs.Add(1)
		big.tree.Release(held)
	}); allocs > 0 {
		t.Errorf("a release that is not the last allocates %v times", allocs)
	}
	big.tree.Release(held)
	if len(big.gone) != 0 || len(big.dead) != 1 || len(big.tree.tables) != n {
		t.Errorf("after the last release %d files are gone, %d versions handed over, and %d tables left", len(big.gone), len(big.dead), len(big.tree.tables))
	}
	big.remove()
	if len(big.gone) != n || len(big.tree.tables) != 0 {
		t.Errorf("in the end %d files are gone, and %d tables left", len(big.gone), len(big.tree.tables))
	}
}
