package compaction

import (
	"math"
	"testing"

	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/manifest"
)

// live writes this number of bytes. After each flush it runs all compactions
// that are due. It samples the tree about a hundred times, each time after
// an odd number of flushes, and so at all depths of level 0 equally often.
func (s *simulation) live(bytes float64) {
	begin := s.flushed
	every := int(bytes/100/float64(s.flushBytes())) | 1
	for n := 1; s.flushed < begin+bytes; n++ {
		s.flush()
		s.settle()
		if n%every == 0 {
			s.seen.sample(s)
		}
	}
}

// warm forgets the measurements and the writes so far.
func (s *simulation) warm() {
	s.flushed, s.written, s.seen = 0, [manifest.NumLevels]float64{}, observations{}
}

// small are options with which a store of 1 GB has levels like one of 100 GB.
func small(runs int) Options {
	return Options{MemtableSize: 1 << 20, TableSize: 1 << 19, LevelRuns: runs}
}

// TestSimulate_Costs fails if a change of the planner makes stores write more, or
// lookups ask more. The simulation has no randomness, so only a change of the planner
// moves the figures. After an intended change, copy the figures that this test prints.
func TestSimulate_Costs(t *testing.T) {
	updates := workload{name: "updates", updates: 1}
	zipf := workload{name: "zipfian updates", updates: 1, shares: zipfian(64)}
	inserts := workload{name: "inserts"}
	for i, c := range []struct {
		load       workload
		runs       int
		wa, met    float64
		rate, most float64 // sum of false positive rates; space for each byte of data
	}{
		{updates, 1, 12.06, 7.03, 0.0131, 1.141},
		{updates, 4, 8.87, 8.29, 0.0145, 1.142},
		{zipf, 1, 10.99, 7.10, 0.0131, 1.141},
		{inserts, 1, 11.52, 7.63, 0.0140, 1.073},
		{updates, 2, 9.51, 7.68, 0.0137, 1.141},
		{inserts, 4, 9.52, 8.89, 0.0155, 1.065},
	} {
		if i >= 2 && testing.Short() {
			break
		}
		s := newSimulation(t, small(c.runs), c.load)
		s.checked = true
		s.fill(400 << 20)
		s.live(40 << 20)
		s.warm()
		s.live(100 << 20)
		if err := s.v.Check(); err != nil {
			t.Fatal(err)
		}
		wa, levels := s.writeAmplification()
		o := s.seen.means()
		t.Logf("%s, %d runs: written %.2f times, by level %.2f, %.2f runs met, at most %d, rates %.4f, filters of %.2f bits, space %.3f, at most %.3f; %s",
			c.load.name, c.runs, wa, levels, o.met, o.maxRuns, o.rate, o.bits, o.amplified, o.peak, s.shape())
		for _, f := range []struct {
			name      string
			got, want float64
		}{{"write amplification", wa, c.wa}, {"runs met", o.met, c.met}, {"sum of rates", o.rate, c.rate}, {"space", o.peak, c.most}} {
			if math.Abs(f.got/f.want-1) > 0.03 {
				t.Errorf("%s, %d runs: %s %.4g, want %.4g", c.load.name, c.runs, f.name, f.got, f.want)
			}
		}
		s.checkShape()
	}
}

// checkShape checks the sizes of the levels and the number of their runs.
func (s *simulation) checkShape() {
	s.t.Helper()
	var sum int64
	for level := range s.v.Levels {
		sum += s.v.Bytes(level)
		if n := len(s.v.Levels[level].Runs); level > 0 && n > s.levelRuns(level) {
			s.t.Errorf("L%d has %d runs", level, n)
		}
	}
	for level, score := range idleScores(s.v, s.o) {
		if score >= 1 {
			s.t.Errorf("L%d has score %.2f when nothing is due", level, score)
		}
	}
	if above := float64(sum-s.v.Bytes(lastLevel)) / float64(sum); above > 0.25 {
		s.t.Errorf("%.0f %% of the data lie above the last level", 100*above)
	}
	base := baseLevel(s.v, s.o)
	for level := 1; level < lastLevel; level++ {
		if filled := s.v.Bytes(level) > 0; level < base && filled {
			s.t.Errorf("L%d holds data above the base level L%d", level, base)
		}
	}
}

// TestSimulate_Ascending: a load in the order of the keys is moved down and never
// rewritten.
func TestSimulate_Ascending(t *testing.T) {
	testenv.SkipRace(t)
	for _, runs := range []int{1, 4} {
		s := newSimulation(t, Options{LevelRuns: runs}, workload{sequential: true})
		for range 3000 {
			s.flush()
			s.settle()
		}
		t.Logf("%s written %.2f times, plans %v", s.shape(), s.amplification(), s.plans)
		s.checkShape()
		if a := s.amplification(); a != 1 {
			t.Errorf("written %.2f times, want once", a)
		}
	}
}

// TestSimulate_Clock: a fast disk slows no writer down, and a slow
// one does. Workers that plan at the same time break nothing.
func TestSimulate_Clock(t *testing.T) {
	for _, runs := range []int{1, 4} {
		for _, bandwidth := range []float64{100 << 20, 5 << 20} {
			s := newSimulation(t, small(runs), workload{updates: 1})
			s.checked = true
			s.fill(100 << 20)
			c := &clock{simulation: s, bandwidth: bandwidth, workers: 3, ingest: 2 << 20}
			c.live(60 << 20)
			t.Logf("%d runs, %s/s: written %.2f times, level 0 has up to %d runs, slowed for %.0f of %.0f s",
				runs, byteSize(int64(bandwidth)), s.amplification(), s.seen.maxLevel0, c.slowed, c.now)
			if err := s.v.Check(); err != nil {
				t.Fatal(err)
			}
			if slow := bandwidth < 10<<20; slow != (c.slowed > 0) {
				t.Errorf("%d runs, %s/s: slowed for %.1f of %.1f s", runs, byteSize(int64(bandwidth)), c.slowed, c.now)
			}
		}
	}
}

// baseLevel returns the level that level 0 is compacted to.
func baseLevel(v *manifest.Version, o Options) int {
	return shapeOf(v, o.withDefaults(), &InFlight{}).base
}
