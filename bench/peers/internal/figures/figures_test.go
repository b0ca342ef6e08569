package figures

import "testing"

func TestMedian(t *testing.T) {
	for want, v := range map[float64][]float64{0: nil, 2: {3, 1, 2}, 2.5: {4, 1, 2, 3}} {
		if got := Median(v); got != want {
			t.Errorf("Median(%v) = %v, want %v", v, got, want)
		}
	}
}
