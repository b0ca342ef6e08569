package main

import (
	"slices"
	"testing"
)

// A report says where a peer is ahead, and only there.
func TestReport_SaysWhereAPeerIsAhead(t *testing.T) {
	r := newReport(config{keys: "random"})
	for _, x := range []struct {
		name         string
		nanos        float64
		bits         int
		maybe        int
		ahead, small bool
	}{
		{"shale Blocked", 10, 10, 100, false, false},
		{"shale other", 8, 20, 50, false, false},
		{"bits-and-blooms", 20, 10, 99, false, false},
		{"fast", 5, 12, 120, true, false},
		{"hardly faster", 7.9, 20, 49, false, false},
		{"small", 9, 9, 80, false, true},
		{"exact", 9, 20, 30, false, true},
	} {
		c := contestant{group: static, name: x.name}
		r.noteFilter(1000, c, size(x.bits*1000))
		r.countFalsePositives(1000, c, x.maybe, 10_000)
		for _, times := range []float64{3, 1, 1} {
			r.add(1000, c, "miss", "16 B", cost{nanos: times * x.nanos})
		}
		r.finish()
		if got := slices.ContainsFunc(r.Behind, func(l lead) bool { return l.Peer == x.name }); got != x.ahead {
			t.Errorf("%s is said to be faster: %v, want %v", x.name, got, x.ahead)
		}
		if got := slices.ContainsFunc(r.Smaller, func(f *filterReport) bool { return f.Filter == x.name }); got != x.small {
			t.Errorf("%s is said to be smaller: %v, want %v", x.name, got, x.small)
		}
	}
	if x := r.find(1000, "bits-and-blooms", "miss", "16 B"); x.Median != 20 || x.Ratio != 2 {
		t.Errorf("median %v, ratio %v, want 20 and 2", x.Median, x.Ratio)
	}
	if len(r.Targets) != 1 || r.Targets[0].Got != 2 || !r.Targets[0].Met {
		t.Errorf("targets %+v, want one of 2.0 that is met", r.Targets)
	}
}

// A size is a filter of so many bits.
type size float64

func (s size) bits() float64   { return float64(s) }
func (s size) theory() float64 { return unknown }
