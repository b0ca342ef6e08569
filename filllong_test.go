package shale

import (
	"encoding/binary"
	"math/bits"
	"math/rand/v2"
	"runtime/metrics"
	"slices"
	"testing"
	"time"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/offheap"
	"github.com/shaledb/shale/internal/testenv"
)

// fillLongKeys bounds the store's size: some 5 GB on the disk.
const fillLongKeys = 64 << 20

// processMemory returns the bytes that the process takes, but for its code and
// what of files is mapped.
func processMemory() int64 {
	m := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	metrics.Read(m)
	return int64(m[0].Value.Uint64()-m[1].Value.Uint64()) + offheap.InUse()
}

// collectorShare returns how many seconds the collector has taken of all that
// the process has worked.
func collectorShare() (collector, all float64) {
	m := []metrics.Sample{{Name: "/cpu/classes/gc/total:cpu-seconds"}, {Name: "/cpu/classes/total:cpu-seconds"}, {Name: "/cpu/classes/idle:cpu-seconds"}}
	metrics.Read(m)
	return m[0].Value.Float64(), m[1].Value.Float64() - m[2].Value.Float64()
}

// TestFill_LongestWaits writes keys in no order for SHALE_LONG, as fast as it
// may, into a store on the disk and prints how long writes waited. Its memory
// stays within what the options say, and the collector has little to do.
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
	var most, allowed int64   // bytes of memory
	n, begin := 0, time.Now()
	for last := begin; last.Sub(begin) < long; n++ {
		binary.BigEndian.PutUint64(key, rng.Uint64N(fillLongKeys)*0x9e3779b97f4a7c15)
		for i := 0; i < len(value)/2; i += 8 {
			binary.LittleEndian.PutUint64(value[i:], rng.Uint64())
		}
		if err := db.Put(key, value); err != nil {
			t.Fatal(err)
		}
		if n%(1<<18) == 0 {
			m := db.Metrics()
			most = max(most, processMemory())
			allowed = max(allowed, 3*db.opts.MemtableSize+db.opts.CacheSize+m.FilterMemory+m.IndexMemory)
			last = time.Now()
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
	collector, all := collectorShare()
	t.Logf("%d MB at most, the options say %d; collector %.1f %% of the processor time; %s",
		most>>20, allowed>>20, 100*collector/all, base.FormatBytes(int64(m.FlushBytes+m.CompactBytes)))
	if float64(most) > 1.1*float64(allowed) {
		t.Errorf("%d MB of memory, 10 %% above the %d MB that the options say", most>>20, allowed>>20)
	}
	if collector > 0.05*all {
		t.Errorf("the collector has taken %.1f of %.1f s", collector, all)
	}
	if worst[0] > 2*time.Second { // the machine has others to serve: what is aimed at is 100 ms
		t.Errorf("a write waited for %v", worst[0])
	}
	closeTest(t, db)
}
