package tree

import (
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"time"

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

// TestInstall_LooksAtNoOtherTable takes the tables away that an install has nothing to do with, so
// that a look at one of them is a fault: for a flush, a compaction, a new sidecar, and the release of
// the versions before. A store may have 100,000 of them.
func TestInstall_LooksAtNoOtherTable(t *testing.T) {
	const n = 2000
	big := newBigTree(t, n)
	big.next = 1 << 20
	sidecars, beside := big.rewriteSidecars(func(m *manifest.Table) bool { return m.Num%2 == 0 })
	big.install(t, sidecars, nil, beside...)
	metas := big.tree.version.Meta.Levels[6].Runs[0].Tables
	changed := metas[n/2 : n/2+10]
	others := append(slices.Clone(metas[1:n/2-2]), metas[n/2+12:n-1]...)
	for _, m := range others { // the first and the last bound the run
		delete(big.tree.tables, m.Num)
		delete(big.tree.sidecars, m.Num)
	}
	run := big.tree.version.Runs[0]
	for i := range run.Tables {
		if i > 0 && i < n/2-2 || i > n/2+11 && i < n-1 {
			run.Tables[i] = nil
		}
	}

	flushed := big.table(0, n<<32)
	big.install(t, &manifest.Edit{Added: []manifest.Added{{Level: 0, Run: uint64(flushed.Meta.Num), Table: flushed.Meta}}}, []*Table{flushed})
	if got := big.tree.version.Runs[1]; got != run {
		t.Error("a flush has made a new run of the last level")
	}
	e := &manifest.Edit{Removed: []manifest.Removed{{Level: 0, Num: flushed.Meta.Num}}}
	var opened []*Table
	for _, m := range changed {
		e.Removed = append(e.Removed, manifest.Removed{Level: 6, Num: m.Num})
	}
	for i := range len(changed) {
		at := uint64(n/2+i) << 32
		opened = append(opened, big.table(at, at|1<<31))
		e.Added = append(e.Added, manifest.Added{Level: 6, Run: 1, Table: opened[i].Meta})
	}
	gone := len(big.gone)
	big.install(t, e, opened)
	if n := len(big.gone) - gone; n != 1+10+5 {
		t.Errorf("%d files are gone after a compaction, want a table of level 0, ten of level 6 and five sidecars", n)
	}
	e, beside = big.rewriteSidecars(func(m *manifest.Table) bool { return m == opened[3].Meta })
	big.install(t, e, nil, beside...)
	if big.tree.version.Meta.NumTables() != n || len(big.tree.version.Runs[0].Tables) != n {
		t.Errorf("%d tables, want %d", big.tree.version.Meta.NumTables(), n)
	}
}

// installBytes returns how many bytes a flush allocates in a store of n tables of which half have a sidecar.
func installBytes(t *testing.T, n int) uint64 {
	big := newBigTree(t, n)
	e, beside := big.rewriteSidecars(func(m *manifest.Table) bool { return m.Num%2 == 0 })
	big.install(t, e, nil, beside...)
	const flushes = 50
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range flushes {
		m := big.table(0, uint64(n)<<32)
		big.install(t, &manifest.Edit{Added: []manifest.Added{{Level: 0, Run: uint64(m.Meta.Num), Table: m.Meta}}}, []*Table{m})
		big.install(t, &manifest.Edit{Removed: []manifest.Removed{{Level: 0, Num: m.Meta.Num}}}, nil)
	}
	runtime.ReadMemStats(&after)
	return (after.TotalAlloc - before.TotalAlloc) / flushes
}

// TestInstall_SameForAnyNumberOfTables compares what a flush allocates among few tables and many.
func TestInstall_SameForAnyNumberOfTables(t *testing.T) {
	few, many := installBytes(t, 500), installBytes(t, 20_000)
	t.Logf("a flush and the removal of its table allocate %d bytes among 500 tables, %d among 20,000", few, many)
	if many > few*3/2 {
		t.Errorf("a flush allocates %d bytes among 500 tables, and %d among 20,000", few, many)
	}
}

// manyRuns returns how long it takes to add n runs to level 0 in one edit, to add another one,
// and to move the tables of all to the last level.
func manyRuns(t *testing.T, n int) time.Duration {
	big := newBigTree(t, 0)
	add, move := &manifest.Edit{}, &manifest.Edit{}
	var opened []*Table
	for i := range n {
		m := big.table(uint64(i)<<32, uint64(i)<<32|1)
		opened = append(opened, m)
		add.Added = append(add.Added, manifest.Added{Level: 0, Run: uint64(m.Meta.Num), Table: m.Meta})
		move.Removed = append(move.Removed, manifest.Removed{Level: 0, Num: m.Meta.Num, Table: m.Meta})
		move.Added = append(move.Added, manifest.Added{Level: 6, Run: 1, Table: m.Meta})
	}
	begin := time.Now()
	big.install(t, add, opened)
	m := big.table(0, 1)
	big.install(t, &manifest.Edit{Added: []manifest.Added{{Level: 0, Run: uint64(m.Meta.Num), Table: m.Meta}}}, []*Table{m})
	move.Rebase(big.tree.version.Meta)
	big.install(t, move, nil)
	took := time.Since(begin)
	if v := big.tree.version; len(v.Runs) != 2 || len(v.Runs[1].Tables) != n || len(big.gone) > 0 {
		t.Fatalf("%d runs, files %q are gone", len(v.Runs), big.gone)
	}
	return took
}

// TestInstall_ManyRuns installs in a level 0 of many runs, as after an import in pieces. That takes
// about as long as in many levels 0 of few runs, one after the other, so a busy machine lengthens
// both alike. To look for each run in all others would take 16 times as long.
func TestInstall_ManyRuns(t *testing.T) {
	if testenv.Race {
		t.Skip("the race detector makes times meaningless")
	}
	const runs, stores = 6_400, 16
	for attempt := 1; ; attempt++ {
		few := time.Duration(0)
		for range stores {
			few += manyRuns(t, runs/stores)
		}
		many := manyRuns(t, runs)
		t.Logf("%v in %d levels of %d runs, %v in one of %d", few, stores, runs/stores, many, runs)
		if many < 3*few {
			return
		}
		if attempt == 5 {
			t.Fatal("many runs take longer than in proportion")
		}
	}
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
