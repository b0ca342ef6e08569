package memtable

import (
	"bytes"
	"fmt"
	"sync"
	"testing"

	"github.com/shaledb/shale/internal/base"
)

func TestPivot_SlotsAreOwnedByOne(t *testing.T) {
	var p pivotSlots
	long := []byte("longer than sixteen bytes")
	owned := map[uint64]entry{}
	for range slotsTotal {
		e := p.pivot(long, 1)
		if _, twice := owned[e.addr()]; twice {
			t.Fatalf("slot %d given to two owners", e.addr())
		}
		owned[e.addr()] = e
	}

	// All slots are taken: the next search gets the one that is released.
	got := make(chan entry)
	go func() { got <- p.pivot(long, 2) }()
	p.release(owned[42])
	if e := <-got; e.addr() != 42 {
		t.Errorf("got slot %d, want the free one, 42", e.addr())
	}
	for _, e := range owned {
		p.release(e)
	}
	for i := range p.shards {
		if taken := p.shards[i].taken.Load(); taken != 0 {
			t.Errorf("shard %d: slots %b are still taken", i, taken)
		}
	}
}

func TestPivot_ShortKeysTakeNoSlot(t *testing.T) {
	var p pivotSlots
	for n := range base.PrefixLen + 1 {
		if e := p.pivot(make([]byte, n), 1); e.ref&pivotBit != 0 {
			t.Errorf("a key of %d bytes took slot %d", n, e.addr())
		}
	}
}

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
