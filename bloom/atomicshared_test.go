package bloom

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/shaledb/shale/bloom/internal/filtertest"
	"github.com/shaledb/shale/internal/testenv"
)

// Many goroutines bring the same keys, each in an order of its own, while others add keys that
// share lines with them. Each key is new to exactly one goroutine. The filter is so large that
// no key is there by chance.
func TestAtomicBlocked_NewToExactlyOne(t *testing.T) {
	callers, n, rounds := 4, 3000, 200
	if testenv.Race || filtertest.Short() {
		rounds = 3
	}
	for round := range rounds {
		all := filtertest.RandomHashes(uint64(round), 2*n)
		hs, strangers := all[:n], all[n:]
		f := atomicOf(n, 1000)
		isNew := make([]atomic.Int32, n)
		var wg sync.WaitGroup
		for c := range callers {
			wg.Go(func() {
				r := rand.New(rand.NewPCG(uint64(round), uint64(c)))
				// In blocks of 16, so that the callers meet at the same keys.
				for start := 0; start < n; start += 16 {
					for _, i := range r.Perm(min(16, n-start)) {
						if !f.CheckAndAddHash(hs[start+i]) {
							isNew[start+i].Add(1)
						}
					}
				}
			})
		}
		wg.Go(func() {
			for _, h := range strangers {
				f.AddHash(h)
			}
		})
		wg.Wait()
		for i := range isNew {
			if got := isNew[i].Load(); got != 1 {
				t.Fatalf("round %d: key %d was new to %d callers, want 1", round, i, got)
			}
		}
		if got, want := f.Count(), uint64(2*n); got != want {
			t.Fatalf("round %d: Count() = %d, want %d", round, got, want)
		}
	}
}

func TestAtomicBlocked_Allocs(t *testing.T) {
	testenv.SkipRace(t)
	f, key, i := atomicOf(1000, 10), []byte("a key of some length"), uint64(0)
	mapped := mustOpenAtomic(t, f)
	for _, f := range []*AtomicBlocked{f, mapped} {
		if n := testing.AllocsPerRun(100, func() {
			i += 1 << 40
			f.AddHash(i)
			_ = f.Add(key)
			_ = f.AddString("another key")
			benchSink = f.CheckAndAddHash(i + 1<<39)
			benchSink = f.CheckAndAdd(key)
			benchSink = f.MayContain(key)
			benchWord = f.Count()
		}); n != 0 {
			t.Errorf("%v allocations", n)
		}
	}
	buf := make([]byte, 0, 1<<16)
	if n := testing.AllocsPerRun(10, func() { buf, _ = f.AppendBinary(buf[:0]) }); n != 0 {
		t.Errorf("AppendBinary into enough room: %v allocations", n)
	}
}
