package memtable

import (
	"bytes"
	"fmt"
	"sync"
	"testing"
)

// TestPivot_Race lets more goroutines than there are slots put their keys into them.
func TestPivot_Race(t *testing.T) {
	m := New(Options{})
	var wg sync.WaitGroup
	for g := range 2 * slotsTotal {
		wg.Go(func() {
			key := fmt.Appendf(nil, "the key of goroutine %d", g)
			for range 200 {
				e := m.pivots.pivot(key, 1)
				if got := m.keyOf(e); !bytes.Equal(got, key) {
					t.Errorf("slot holds %q, want %q", got, key)
				}
				m.pivots.release(e)
			}
		})
	}
	wg.Wait()
}
