package compaction

import (
	"testing"
	"time"
)

// TestSimulate_TenTerabytes goes on with a store of 10 TB in tables of 16 MiB:
// planning and applying must be bearable with 700,000 tables.
func TestSimulate_TenTerabytes(t *testing.T) {
	if testing.Short() {
		t.Skip("takes some seconds")
	}
	for _, runs := range []int{1, 4} {
		s := newSimulation(t, Options{LevelRuns: runs}, workload{updates: 1})
		s.fill(10 << 40)
		for range 100 {
			s.flush()
			s.settle()
		}
		var picks int
		begin := time.Now()
		for range 20 {
			s.flush()
			Pick(s.v, s.o, s.busy)
			picks++
		}
		each := time.Since(begin) / time.Duration(picks)
		begin = time.Now()
		for range 20 {
			(&picker{v: s.v, opts: s.o, busy: &s.busy, shape: shapeOf(s.v, s.o, &s.busy)}).pickLevel(5)
		}
		l5 := time.Since(begin) / 20
		begin = time.Now()
		p, _ := (&picker{v: s.v, opts: s.o, busy: &s.busy, shape: shapeOf(s.v, s.o, &s.busy)}).pickLevel(5)
		edit, written := s.run(&p)
		t1 := time.Since(begin)
		s.finish(&p, edit, written)
		t2 := time.Since(begin) - t1
		t.Logf("%d runs, %d tables, %s written %.1f times, plans %v, inputs up to %s; %v a pick with a flush, %v a pick of L5, merge %v, apply %v",
			runs, s.v.NumTables(), s.shape(), s.amplification(), s.plans, byteSize(s.input), each, l5, t1, t2)
		if err := s.v.Check(); err != nil {
			t.Fatal(err)
		}
	}
}
