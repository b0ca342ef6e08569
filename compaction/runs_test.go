package compaction

import (
	"testing"

	"github.com/shaledb/shale/manifest"
)

// The levels of a store may hold two runs if the last level is large. Such
// a store keeps them until it is half as large.
func TestRunsBySize(t *testing.T) {
	const baseBytes = 1 << 20
	for _, c := range []struct {
		last int64 // bytes of the last level
		runs int   // that L4 has
		want int
	}{
		{0, 0, 1},
		{lazyFrom*baseBytes - 1, 1, 1},
		{lazyFrom * baseBytes, 0, lazyRuns},
		{lazyFrom * baseBytes, 2, lazyRuns},
		{lazyFrom/2*baseBytes - 1, 2, 1},
		{lazyFrom / 2 * baseBytes, 1, 1},
		{lazyFrom / 2 * baseBytes, 2, lazyRuns},
	} {
		e := &manifest.Edit{Added: []manifest.Added{{Level: lastLevel, Table: &manifest.Table{Num: 1, Size: c.last, Largest: []byte("z")}}}}
		for i := range c.runs {
			e.Added = append(e.Added, manifest.Added{Level: 4, Run: uint64(i), Table: &manifest.Table{Num: 2, Size: 1, Largest: []byte("z")}})
		}
		v, err := new(manifest.Version).Apply(e)
		if err != nil {
			t.Fatal(err)
		}
		o := Options{BaseBytes: baseBytes}.forVersion(v)
		if o.LevelRuns != c.want {
			t.Errorf("%d bytes and %d runs: %d runs a level, want %d", c.last, c.runs, o.LevelRuns, c.want)
		}
		if o.levelRuns(lastLevel) != 1 {
			t.Errorf("the last level may hold %d runs", o.levelRuns(lastLevel))
		}
		if set := (Options{BaseBytes: baseBytes, LevelRuns: 3}).forVersion(v); set.LevelRuns != 3 {
			t.Errorf("a number that is set becomes %d", set.LevelRuns)
		}
	}
}

// A store grows past the size from which its levels may hold two runs: it then gets such
// levels. When such levels are no longer allowed, compactions leave one run in each.
func TestSimulate_RunsBySize(t *testing.T) {
	if testing.Short() {
		t.Skip("takes some seconds")
	}
	s := newSimulation(t, small(0), workload{updates: 0.5})
	s.checked = true
	s.fill(lazyFrom * 4 << 20 * 98 / 100)
	if n := s.levelRuns(4); n != 1 {
		t.Fatalf("%d runs before the store grows", n)
	}
	most := func() (n int) {
		for level := 1; level < lastLevel; level++ {
			n = max(n, len(s.v.Levels[level].Runs))
		}
		return n
	}
	for grown := 0; most() < 2; grown++ {
		if grown > 100 {
			t.Fatalf("no level has two runs: %s", s.shape())
		}
		s.live(10 << 20)
	}
	s.live(50 << 20)
	s.checkShape()
	t.Log(s.shape())
	if n := most(); n != lazyRuns {
		t.Errorf("a level has %d runs", n)
	}
	s.o.LevelRuns = 1
	s.settle()
	t.Log(s.shape())
	if n := most(); n != 1 {
		t.Errorf("a level still has %d runs", n)
	}
	s.checkShape()
}
