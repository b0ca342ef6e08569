package base

import (
	"runtime"
	"sync"
	"testing"
)

// The number of stripes follows the processors, and stays small for few of them.
func TestStripes(t *testing.T) {
	for processors, want := range map[int]int{1: 4, 2: 8, 3: 16, 4: 16, 5: 32, 16: 64, 64: 256, 96: 512, 256: 1024, 1000: 1024} {
		if got := stripesFor(processors); got != want {
			t.Errorf("%d processors: %d stripes, want %d", processors, got, want)
		}
	}
	was := runtime.GOMAXPROCS(16)
	defer runtime.GOMAXPROCS(was)
	if got := Stripes(); got != 64 {
		t.Errorf("GOMAXPROCS 16: %d stripes, want 64", got)
	}
}

// Goroutines that run at the same time rarely have the same stripe: as many of them as there
// are processors have at least two thirds as many stripes. By chance it would be nine tenths.
func TestStripeOf_Spreads(t *testing.T) {
	for _, processors := range []int{4, 16, 64} {
		n := stripesFor(processors)
		var mu sync.Mutex
		used := make(map[int]int)
		var started, wg sync.WaitGroup
		started.Add(processors)
		for range processors {
			wg.Go(func() {
				started.Done()
				started.Wait() // so that all stacks are in use
				i := StripeOf(n)
				if i < 0 || i >= n {
					t.Errorf("stripe %d of %d", i, n)
				}
				mu.Lock()
				defer mu.Unlock()
				used[i]++
			})
		}
		wg.Wait()
		if len(used) < processors*2/3 {
			t.Errorf("%d goroutines use %d of %d stripes: %v", processors, len(used), n, used)
		}
	}
}

// The sum counts each addition once, also the first ones, which make the stripes. An addition of
// the complement subtracts, whichever stripe it goes to.
func TestCounter(t *testing.T) {
	for range 100 {
		var c Counter
		if n := c.Load(); n != 0 {
			t.Fatalf("a new counter is %d", n)
		}
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				for range 10 {
					c.Add(3)
					c.Add(^uint64(0))
				}
			})
		}
		wg.Wait()
		if n := c.Load(); n != 160 {
			t.Fatalf("the sum is %d, want 160", n)
		}
	}
}
