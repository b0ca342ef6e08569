package bloom

import (
	"math"
	"testing"
)

var (
	inf = math.Inf(1)
	nan = math.NaN()
)

func TestSizeBits(t *testing.T) {
	for _, c := range []struct {
		n    uint64
		p    float64
		want uint64
	}{
		{1, 0.01, 10}, {0, 0.01, 10}, {1000, 0.01, 9586}, {1e6, 0.01, 9585059}, {1e6, 0.001, 14377588}, {1000, 0.5, 1443},
		{1000, nan, 9586}, {1000, 1, 1}, {1000, 2, 1}, {1000, inf, 1}, {1, 0, 1475}, {1, -1, 1475}, {1, -inf, 1475},
		{math.MaxUint64, 0.01, math.MaxUint64}, {math.MaxUint64, 0, math.MaxUint64},
	} {
		if got := SizeBits(c.n, c.p); got != c.want {
			t.Errorf("SizeBits(%d, %v) = %d, want %d", c.n, c.p, got, c.want)
		}
	}
}

func TestSizeProbes(t *testing.T) {
	for _, c := range []struct {
		m, n uint64
		want int
	}{
		{10, 1, 7}, {9586, 1000, 7}, {14378, 1000, 10}, {1, 1000, 1}, {0, 0, 1}, {0, 1, 1}, {1000, 0, 693}, {1, math.MaxUint64, 1},
		{math.MaxUint64, 1, math.MaxInt32},
	} {
		if got := SizeProbes(c.m, c.n); got != c.want {
			t.Errorf("SizeProbes(%d, %d) = %d, want %d", c.m, c.n, got, c.want)
		}
	}
	for p, want := range map[float64]int{0.5: 1, 0.9: 1, 1: 1, 0.01: 7, 0.001: 10, 1e-6: 20, 0: 1022, -1: 1022} {
		if got := SizeProbesFPR(p); got != want {
			t.Errorf("SizeProbesFPR(%v) = %d, want %d", p, got, want)
		}
	}
	if got := SizeProbesFPR(nan); got != 7 {
		t.Errorf("SizeProbesFPR(NaN) = %d, want 7", got)
	}
}

func TestSizeFPR(t *testing.T) {
	for _, c := range []struct {
		m    uint64
		k    int
		n    uint64
		want float64
	}{
		{9586, 7, 1000, 0.0100345}, {14378, 10, 1000, 0.000999826}, {16e6, 8, 1e6, 5.745e-4}, {1000, 1, 0, 0}, {0, 0, 0, 0}, {1, 1, 1, 0.632121}, {1, 1, math.MaxUint64, 1},
		{0, -5, math.MaxUint64, 1}, {math.MaxUint64, 1, 1, 5.421e-20}, {64, math.MaxInt, 1, 0},
	} {
		got := SizeFPR(c.m, c.k, c.n)
		if c.k == math.MaxInt {
			if !(got >= 0 && got <= 1) {
				t.Errorf("SizeFPR(%d, %d, %d) = %v", c.m, c.k, c.n, got)
			}
		} else if math.Abs(got-c.want) > 1e-4*c.want {
			t.Errorf("SizeFPR(%d, %d, %d) = %v, want %v", c.m, c.k, c.n, got, c.want)
		}
	}
}

func TestSizeKeys(t *testing.T) {
	for _, c := range []struct {
		m    uint64
		k    int
		p    float64
		want uint64
	}{
		{9586, 7, 0.01, 999}, {9600, 7, 0.01, 1000}, {14400, 10, 0.001, 1001}, {0, 0, 0.01, 0}, {64, 7, 0, 0}, {64, 1, 1, 2351},
		{math.MaxUint64, 1, 1, math.MaxUint64}, {9600, 7, nan, 1000},
	} {
		if got := SizeKeys(c.m, c.k, c.p); got != c.want {
			t.Errorf("SizeKeys(%d, %d, %v) = %d, want %d", c.m, c.k, c.p, got, c.want)
		}
	}
}

func TestSizeCount(t *testing.T) {
	for _, c := range []struct {
		m    uint64
		k    int
		ones uint64
		want float64
	}{
		{9600, 7, 4800, 950.6}, {9600, 7, 0, 0}, {9600, 7, 9600, inf}, {9600, 7, math.MaxUint64, inf}, {0, 0, 0, 0}, {0, 0, 1, inf},
		{64, 1, 63, 266.1685}, {math.MaxUint64, 1, 1, 1},
	} {
		if got := SizeCount(c.m, c.k, c.ones); got != c.want && math.Abs(got-c.want) > 1e-4*c.want {
			t.Errorf("SizeCount(%d, %d, %d) = %v, want %v", c.m, c.k, c.ones, got, c.want)
		}
	}
}
