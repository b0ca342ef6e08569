package shale

import (
	"encoding/binary"
	"math/bits"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/shaledb/shale/internal/testenv"
)

// TestFill_LongestWaits writes keys in no order for SHALE_LONG, as fast as it
// may, into a store on the disk and prints how long writes waited.
func TestFill_LongestWaits(t *testing.T) {
	long := testenv.Long(t)
	if long == 0 {
		t.Skip("SHALE_LONG is not set")
	}
	seed := testenv.Seed(t)
	db := mustOpen(t, t.TempDir(), &Options{MemtableSize: 64 << 20, Durability: SyncManual})
	rng := rand.New(rand.NewPCG(seed, 1))
	key, value := make([]byte, 16), make([]byte, 100)
	var worst []time.Duration // the longest waits, longest first
	var over [40]int          // waits of 2^i µs or more, below the next
	n, begin := 0, time.Now()
	for last := begin; last.Sub(begin) < long; n++ {
		binary.BigEndian.PutUint64(key, rng.Uint64())
		for i := 0; i < len(value)/2; i += 8 {
			binary.LittleEndian.PutUint64(value[i:], rng.Uint64())
		}
		if err := db.Put(key, value); err != nil {
			t.Fatal(err)
		}
		now := time.Now()
		wait := now.Sub(last)
		last = now
		over[min(bits.Len64(uint64(wait.Microseconds())), len(over)-1)]++
		if len(worst) < 10 || wait > worst[9] {
			worst = append(worst, wait)
			slices.SortFunc(worst, func(a, b time.Duration) int { return int(b - a) })
			worst = worst[:min(len(worst), 10)]
		}
	}
	m := db.Metrics()
	t.Logf("%d writes in %v; longest waits %v; held back %v in %d waits", n, long, worst, m.StallTime, m.StalledWrites)
	for i, c := range over {
		if c > 0 && i >= 10 {
			t.Logf("%d waits of %v or more", c, time.Duration(1<<(i-1))*time.Microsecond)
		}
	}
	if worst[0] > 2*time.Second { // the machine has others to serve: what is aimed at is 100 ms
		t.Errorf("a write waited for %v", worst[0])
	}
	closeTest(t, db)
}
