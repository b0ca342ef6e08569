package shale

import (
	"context"
	"fmt"
	"testing"

	"github.com/shaledb/shale/vfs"
)

func TestProbeShares(t *testing.T) {
	var p probeShares
	if got := p.update(lookupCounts{}); got[0] != 1 || got[6] != 1 {
		t.Errorf("without lookups: %v, want 1", got)
	}
	few := lookupCounts{gets: 1000}
	if got := p.update(few); got[6] < 0.98 {
		t.Errorf("after a few hits: %v, want nearly 1", got)
	}
	// Four in five find their key, in the last level.
	n := lookupCounts{gets: 10_000_000}
	for level := range n.asked {
		n.asked[level] = n.gets
	}
	n.asked[6] /= 5
	if got := p.update(n); got[5] < 0.99 || got[6] < 0.19 || got[6] > 0.25 {
		t.Errorf("after many hits: %v, want 1 and about 0.2", got)
	}
	for range 40 { // and now all miss: the past is forgotten
		n.gets += 1 << 20
		for level := range n.asked {
			n.asked[level] += 1 << 20
		}
	}
	if got := p.update(n); got[6] < 0.9 {
		t.Errorf("after many misses: %v, want nearly 1", got)
	}
	n.gets += 1 << 40
	if got := p.update(n); got[6] != leastProbe {
		t.Errorf("after nothing but hits above: %v, want %v", got, leastProbe)
	}
}

// Lookups that find their keys in the last level take bits from it, for the
// levels above, when bits are few.
func TestProbeShares_MoveBits(t *testing.T) {
	bits := func(hits bool) (last float64) {
		opts := tinyStore(vfs.NewMem())
		opts.CompactionWorkers, opts.FilterBits = -1, 5
		db := openTest(t, &opts)
		fill(t, db, 5000, 0)
		settle(t, db)
		for i := range 2_000_000 / 5000 {
			for k := range 5000 {
				key := fmt.Appendf(nil, "key%06d", k)
				if !hits {
					key = append(key, 'x')
				}
				if _, err := db.Has(key); err != nil {
					t.Fatal(err)
				}
			}
			if i == 40 && testing.Short() {
				break
			}
		}
		fill(t, db, 5000, 1)
		if err := db.Compact(context.Background(), Range{}); err != nil {
			t.Fatal(err)
		}
		m := db.Metrics()
		return m.Levels[6].FilterBits
	}
	if hit, miss := bits(true), bits(false); hit > miss-1 {
		t.Errorf("the last level has %.2f bits a key when keys are found there, %.2f when not", hit, miss)
	} else {
		t.Logf("last level: %.2f bits a key when keys are found there, %.2f when not", hit, miss)
	}
}
