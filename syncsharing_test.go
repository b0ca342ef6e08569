package shale

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/shaledb/shale/internal/testenv"
)

// TestCommit_SyncedBesideUnsynced counts what four unsynced writers get done alone
// and beside one that syncs each batch, in turns on one store on the disk. It
// prints the ratio; with SHALE_LONG, which is how long it measures, the median
// of the rounds has to be at least a half.
func TestCommit_SyncedBesideUnsynced(t *testing.T) {
	const rounds = 5
	round := max(testenv.Long(t)/(2*rounds), 20*time.Millisecond)
	db, err := Open(t.TempDir(), &Options{Durability: SyncManual})
	if err != nil {
		t.Fatal(err)
	}
	defer closeTest(t, db)
	var number atomic.Uint64
	// write runs writers for a round and returns how many writes each kind made.
	write := func(synced int) (unsyncedWrites, syncedWrites int) {
		var counts [5]int
		var wg sync.WaitGroup
		end := time.Now().Add(round)
		for w := range 4 + synced {
			wg.Go(func() {
				b := new(Batch)
				for time.Now().Before(end) {
					b.Reset()
					_ = b.Put(fmt.Appendf(nil, "key%012d", number.Add(1)), make([]byte, 100)) // far below every limit
					if w == 4 {
						b.SetDurability(SyncEach)
					}
					if err := db.Write(context.Background(), b); err != nil {
						t.Error(err)
						return
					}
					counts[w]++
				}
			})
		}
		wg.Wait()
		return counts[0] + counts[1] + counts[2] + counts[3], counts[4]
	}
	var ratios []float64
	var alone, beside, synced int
	for range rounds {
		a, _ := write(0)
		b, s := write(1)
		alone, beside, synced = alone+a, beside+b, synced+s
		ratios = append(ratios, float64(b)/float64(a))
	}
	slices.Sort(ratios)
	second := (rounds * round).Seconds()
	t.Logf("4 unsynced writers: %.0f writes a second alone, %.0f beside a synced one, which makes %.0f; medians of %d rounds: %.2f of the rate",
		float64(alone)/second, float64(beside)/second, float64(synced)/second, rounds, ratios[rounds/2])
	if testenv.Long(t) > 0 && ratios[rounds/2] < 0.5 {
		t.Errorf("beside a synced writer, unsynced ones make %.2f of their writes, want at least half", ratios[rounds/2])
	}
}
