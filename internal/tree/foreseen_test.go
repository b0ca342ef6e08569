package tree

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/shaledb/shale/internal/testenv"
)

// Once a run was asked for its false positives, the runs after it have their sums without
// a look at the tables that stay. They are those of all tables.
func TestRun_PredictedFPR_Derived(t *testing.T) {
	rng := rand.New(rand.NewPCG(testenv.Seed(t), 0))
	big := newBigTree(t, 40)
	derived := 0
	for range 200 {
		asked := make(map[[2]uint64]bool)
		for _, r := range big.tree.version.Runs {
			r.PredictedFPR(0)
			asked[[2]uint64{uint64(r.Level), r.id}] = true
		}
		e, opened := big.randomEdit(rng)
		for _, table := range opened {
			table.Meta.Keys = rng.Uint64N(100)
		}
		big.install(t, e, opened)
		for _, r := range big.tree.version.Runs {
			want := 0.0
			for _, table := range r.Tables {
				want += float64(max(table.Meta.Keys, 1)) // without a filter, each lookup reads a block
			}
			sum := r.foreseenAfter(0)
			if known := sum != nil; known != asked[[2]uint64{uint64(r.Level), r.id}] {
				t.Fatalf("run %d of level %d: its sum is known: %t", r.id, r.Level, known)
			}
			if sum != nil {
				derived++
				if math.Abs(sum.sum-want) > 1e-6 {
					t.Fatalf("run %d of level %d: %v false positives, want %v", r.id, r.Level, sum.sum, want)
				}
			}
		}
	}
	if derived < 100 {
		t.Errorf("%d sums were derived, want 100 at least", derived)
	}
}

// A sum of another epoch of the filters is not used.
func TestRun_PredictedFPR_Epoch(t *testing.T) {
	big := newBigTree(t, 3)
	r := big.tree.version.Runs[0]
	if fpr := r.PredictedFPR(1); fpr != 1 {
		t.Errorf("PredictedFPR = %v without filters, want 1", fpr)
	}
	if r.foreseenAfter(2) != nil {
		t.Error("a sum of epoch 1 is taken for one of epoch 2")
	}
}
