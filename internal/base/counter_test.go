package base

import (
	"sync"
	"testing"
)

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
