package shale

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/vfs"
)

func TestProbeShares(t *testing.T) {
	var p probeShares
	var n lookupCounts
	count := func() lookupCounts { return n }
	if got := p.update(count); got[0] != 1 || got[6] != 1 {
		t.Errorf("without lookups: %v, want 1", got)
	}
	n.gets = 1000
	if got := p.update(count); got[6] < 0.98 {
		t.Errorf("after a few hits: %v, want nearly 1", got)
	}
	// Four in five find their key, in the last level.
	n.gets = 10_000_000
	for level := range n.asked {
		n.asked[level] = n.gets
	}
	n.asked[6] /= 5
	if got := p.update(count); got[5] < 0.99 || got[6] < 0.19 || got[6] > 0.25 {
		t.Errorf("after many hits: %v, want 1 and about 0.2", got)
	}
	for range 40 { // and now all miss: the past is forgotten
		n.gets += 1 << 20
		for level := range n.asked {
			n.asked[level] += 1 << 20
		}
	}
	if got := p.update(count); got[6] < 0.9 {
		t.Errorf("after many misses: %v, want nearly 1", got)
	}
	n.gets += 1 << 40
	if got := p.update(count); got[6] != leastProbe {
		t.Errorf("after nothing but hits above: %v, want %v", got, leastProbe)
	}
}

// Compactions that ask at the same time, while lookups go on, never make the
// counts run backwards.
func TestProbeShares_AtOnce(t *testing.T) {
	var c counters
	var p probeShares
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for i := range 20_000 {
				l := c.lookup()
				l.gets.Add(1)
				l.negative(i % NumLevels)
				if i%4 == 0 {
					p.update(c.lookupCounts)
				}
			}
		})
	}
	wg.Wait()
	p.update(c.lookupCounts)
	if p.last.gets != 80_000 || p.gets > 80_000 || p.gets < 70_000 {
		t.Errorf("%v lookups weigh %v, want 80000 and a little less", p.last.gets, p.gets)
	}
}

// Lookups that find their keys in the last level take bits from it, for the
// levels above, when bits are few.
func TestProbeShares_MoveBits(t *testing.T) {
	testenv.SkipRace(t)
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
