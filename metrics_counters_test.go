package shale

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"testing"

	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/internal/tree"
	"github.com/shaledb/shale/vfs"
)

// Tests count on as many samples as one processor or two take, whatever machine they run on.
func init() { tree.SampleEvery = 16 }

// If lookups find their keys in the last level, its filters are of little use, and a compaction gives
// its bits to the levels above.
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

// PutIfAbsent counts as one lookup, also if it looks again because another one has come first.
func TestMetrics_PutIfAbsentIsOneLookup(t *testing.T) {
	db := openTest(t, small())
	before := db.Metrics()
	var claims sync.WaitGroup
	var inserted [3]bool
	err := db.commits.Alone(t.Context(), func() error {
		for i := range inserted {
			claims.Go(func() {
				var err error
				if inserted[i], err = db.PutIfAbsent([]byte("k"), []byte("v")); err != nil {
					t.Error(err)
				}
			})
		}
		for db.commits.Waiting() < len(inserted) { // until all have looked in vain
			runtime.Gosched()
		}
		return nil
	})
	claims.Wait()
	m := db.Metrics().Sub(before)
	if err != nil || m.Gets != 3 || m.GetHits != 2 || m.GetMisses != 1 || m.Writes != 1 {
		t.Errorf("%v: %d lookups, %d hits, %d misses, %d writes of three calls; inserted %v", err, m.Gets, m.GetHits, m.GetMisses, m.Writes, inserted)
	}
}
