package tree

import "testing"

// What was estimated for a version is kept for it, unless something was still being read.
func TestVersion_Estimates(t *testing.T) {
	v := newBigTree(t, 3).tree.version
	computed, partial := 0, true
	estimate := func() Estimates {
		computed++
		return Estimates{LiveShares: []float64{float64(computed)}, Partial: partial}
	}
	for _, want := range []float64{1, 2, 3, 3} {
		partial = want < 3
		if got := v.Estimates(estimate).LiveShares[0]; got != want {
			t.Errorf("the estimates are those of call %v, want %v", got, want)
		}
	}
}
