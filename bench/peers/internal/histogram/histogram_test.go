package histogram

import (
	"math"
	"testing"
	"time"
)

func TestBuckets(t *testing.T) {
	for x := time.Duration(0); x < 1<<62; x += x/7 + 1 {
		b := bucket(x)
		if b < 0 || b >= size {
			t.Fatalf("bucket of %d is %d, of %d", x, b, size)
		}
		if got := float64(middle(b)); math.Abs(got-float64(x)) > float64(x)/sub+1 {
			t.Fatalf("%d falls into the bucket around %v", x, got)
		}
		if bucket(x+1) < b {
			t.Fatalf("bucket of %d is below that of %d", x+1, x)
		}
	}
	if bucket(-5) != 0 {
		t.Errorf("bucket of a clock that went back: %d", bucket(-5))
	}
}

func TestQuantile(t *testing.T) {
	var a, b Histogram
	for i := range 1000 {
		h := &a
		if i%2 == 0 {
			h = &b
		}
		h.Add(time.Duration(i+1) * time.Microsecond)
	}
	a.Merge(&b)
	if a.Count() != 1000 || a.Max() != time.Millisecond {
		t.Errorf("count %d, max %v", a.Count(), a.Max())
	}
	for q, want := range map[float64]time.Duration{0.5: 500 * time.Microsecond, 0.99: 990 * time.Microsecond, 1: time.Millisecond} {
		if got := a.Quantile(q); math.Abs(float64(got-want)) > float64(want)*0.035 {
			t.Errorf("Quantile(%v) = %v, want %v", q, got, want)
		}
	}
	var none Histogram
	if none.Quantile(0.5) != 0 {
		t.Error("a quantile of nothing")
	}
}
