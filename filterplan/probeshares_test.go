package filterplan

import "testing"

func TestProbeHistory(t *testing.T) {
	var h ProbeHistory
	var n LookupCounts
	shares := func() ProbeShares {
		h = h.Next(n)
		return h.Shares()
	}
	if got := shares(); got[0] != 1 || got[6] != 1 {
		t.Errorf("without lookups: %v, want 1", got)
	}
	n.Lookups = 1000
	if got := shares(); got[6] < 0.98 {
		t.Errorf("after a few hits: %v, want nearly 1", got)
	}
	// Four in five find their key, in the last level.
	n.Lookups = 10_000_000
	for level := range n.InVain {
		n.InVain[level] = n.Lookups
	}
	n.InVain[6] /= 5
	if got := shares(); got[5] < 0.99 || got[6] < 0.19 || got[6] > 0.25 {
		t.Errorf("after many hits: %v, want 1 and about 0.2", got)
	}
	for range 40 { // Now all miss, and the past is forgotten.
		n.Lookups += 1 << 20
		for level := range n.InVain {
			n.InVain[level] += 1 << 20
		}
	}
	if got := shares(); got[6] < 0.9 {
		t.Errorf("after many misses: %v, want nearly 1", got)
	}
	n.Lookups += 1 << 40
	n.Empty[5] = true
	got := shares()
	if got[6] != minProbeShare {
		t.Errorf("after nothing but hits above: %v, want %v", got, minProbeShare)
	}
	if got[5] != 1 {
		t.Errorf("of a level that had no table all that time: %v, want 1", got[5])
	}
	if h.Counted != n {
		t.Errorf("the history has counted %v, want %v", h.Counted, n)
	}
}
