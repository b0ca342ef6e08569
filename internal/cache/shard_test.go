package cache

import (
	"sync"
	"sync/atomic"
	"testing"

	"github.com/shaledb/shale/internal/testenv"
)

// sameHome returns n keys of a file whose searches
// all begin at the same slot, in a table of minSlots.
func sameHome(file uint64, n int) (keys []Key) {
	t := newTable(nil, minSlots)
	for o := uint64(0); len(keys) < n; o++ {
		if k := (Key{file, o}); k.hash()>>t.shift == 7 {
			keys = append(keys, k)
		}
	}
	return keys
}

// A lookup finds a block although the block moves to another slot at the same
// time. The blocks before it are evicted one by one, and it moves each time.
func TestShard_FindsWhatMoves(t *testing.T) {
	rounds := 10000
	if testing.Short() || testenv.Race {
		rounds = 1000
	}
	c := New(1 << 20)
	s := &c.shards[0]
	before, hot := sameHome(1, 30), sameHome(2, 1)[0]
	var there atomic.Uint64 // odd while hot is in the cache
	var done atomic.Bool
	var wg sync.WaitGroup
	wg.Go(func() {
		defer done.Store(true)
		for range rounds {
			for _, k := range before {
				add(c, k, 64)
			}
			add(c, hot, 64)
			there.Add(1)
			c.EvictFile(1)
			there.Add(1)
			c.EvictFile(2)
		}
	})
	missed, looked := 0, 0
	for !done.Load() {
		began := there.Load()
		if began&1 == 0 {
			continue
		}
		b := s.get(hot.hash(), hot)
		if b != nil {
			b.Release()
		} else if there.Load() == began {
			missed++
		}
		looked++
	}
	wg.Wait()
	if missed > 0 {
		t.Errorf("%d of %d lookups missed a block that was there", missed, looked)
	}
}
