package compaction

import "testing"

// tenTerabytes is a store of about 90,000 tables.
func tenTerabytes(t testing.TB, runs int) *simulation {
	s := newSimulation(t, Options{LevelRuns: runs}, workload{updates: 1})
	s.fill(10 << 40)
	return s
}

// TestSimulate_TenTerabytes: planning, merging and applying
// takes an acceptable time with this number of tables.
func TestSimulate_TenTerabytes(t *testing.T) {
	if testing.Short() {
		t.Skip("takes some seconds")
	}
	s := tenTerabytes(t, 2)
	for range 20 {
		s.flush()
		s.settle()
	}
	t.Logf("%d tables, %s written %.1f times, plans %v, inputs up to %s", s.v.NumTables(), s.shape(), s.amplification(), s.plans, byteSize(s.input))
	s.checkShape()
	if a := s.amplification(); a > 35 {
		t.Errorf("write amplification %.1f, want 35 at most", a)
	}
	if s.input > 2*maxGrowth*s.o.maxBytes {
		t.Errorf("a merge of %s", byteSize(s.input))
	}
}

// BenchmarkPick picks a compaction for a store of 10 TB, from each of its levels.
func BenchmarkPick(b *testing.B) {
	for _, runs := range []int{1, 4} {
		s := tenTerabytes(b, runs)
		for range 8 {
			s.flush()
		}
		for _, level := range []int{0, 1, 3, 5} {
			b.Run(map[int]string{1: "leveled", 4: "4 runs"}[runs]+"/L"+string(rune('0'+level)), func(b *testing.B) {
				for b.Loop() {
					p := newPicker(s.v, s.o, &s.busy)
					if level == 0 {
						p.fromLevel0(level0Query{}, "level 0")
					} else {
						p.pickLevel(level, "size")
					}
				}
			})
		}
		b.Run(map[int]string{1: "leveled", 4: "4 runs"}[runs]+"/tombstones", func(b *testing.B) {
			for b.Loop() {
				newPicker(s.v, s.o, &s.busy).pickTombstones()
			}
		})
	}
}
