package bloom

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/shaledb/shale/bloom/internal/filtertest"
)

// Goroutines that add at once lose none of each other's bits. A goroutine that learns of a
// key after its Add finds it. To be run with -race.
func TestAtomicBlocked_Concurrent(t *testing.T) {
	const adders, readers, each = 4, 2, 20000
	hs := filtertest.RandomHashes(7, adders*each)
	f := atomicOf(len(hs)/8, 10)   // few lines, many encounters
	var added [adders]atomic.Int64 // keys of each adder that are in
	var adding, reading sync.WaitGroup
	failed := make(chan string, readers)
	for a := range adders {
		adding.Go(func() {
			for i, h := range hs[a*each : (a+1)*each] {
				f.AddHash(h)
				added[a].Store(int64(i + 1))
			}
		})
	}
	for r := range readers {
		reading.Go(func() { // ends when all keys are in
			for i := r; ; i++ {
				a := i % adders
				n := added[a].Load()
				for j := max(0, n-50); j < n; j++ {
					if !f.MayContainHash(hs[a*each+int(j)]) {
						failed <- fmt.Sprintf("key %d of adder %d is added and denied", j, a)
						return
					}
				}
				if a == adders-1 && n == each {
					return
				}
				runtime.Gosched() // where one processor runs all and nothing interrupts a loop, adders would never go on
			}
		})
	}
	adding.Wait()
	reading.Wait()
	close(failed)
	for what := range failed {
		t.Error(what)
	}
	for _, h := range hs {
		if !f.MayContainHash(h) {
			t.Fatalf("%016x is lost", h)
		}
	}
}
