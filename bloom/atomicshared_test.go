package bloom

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/shaledb/shale/bloom/internal/filtertest"
	"github.com/shaledb/shale/internal/testenv"
)

// One goroutine's answers are those of a filter that is asked first and then added to.
func TestAtomicBlocked_CheckAndAddModel(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	f, model := atomicOf(400, 10), atomicOf(400, 10)
	count := uint64(0)
	for step := range 5000 {
		key := []byte(fmt.Sprint("key-", r.IntN(600)))
		want := model.MayContain(key)
		model.AddHash(Hash(key))
		var got bool
		switch r.IntN(5) {
		case 0:
			got = f.CheckAndAdd(key)
		case 1:
			got = f.CheckAndAddString(string(key))
		case 2:
			got = f.CheckAndAddHash(Hash(key))
		default: // Add counts always
			got = f.MayContain(key)
			if err := f.Add(key); err != nil {
				t.Fatal(err)
			}
			if got {
				count++
			}
		}
		if got != want {
			t.Fatalf("step %d: %q may have been there: %v, want %v", step, key, got, want)
		}
		if !want {
			count++
		}
		if f.Count() != count {
			t.Fatalf("step %d: Count() = %d, want %d", step, f.Count(), count)
		}
	}
	for i := range f.lines {
		for j := range f.lines[i] {
			if f.lines[i][j].Load() != model.lines[i][j].Load() {
				t.Fatalf("word %d of line %d differs from the model", j, i)
			}
		}
	}
}

// Many goroutines bring the same keys, each in an order of its own, while others add keys that
// share lines with them. Each key is new to exactly one goroutine. The filter is so large that
// no key is there by chance.
func TestAtomicBlocked_NewToExactlyOne(t *testing.T) {
	callers, n, rounds := 4, 3000, 20
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

// In a small filter, whose lines fill up, no key is ever new to two goroutines, and the ones
// that are new to nobody are as rare as false positives.
func TestAtomicBlocked_NewToAtMostOne(t *testing.T) {
	const n, callers = 20000, 3
	hs := filtertest.RandomHashes(9, n)
	f := atomicOf(n, 10)
	isNew := make([]atomic.Int32, n)
	var wg sync.WaitGroup
	for range callers {
		wg.Go(func() {
			for i, h := range hs {
				if !f.CheckAndAddHash(h) {
					isNew[i].Add(1)
				}
			}
		})
	}
	wg.Wait()
	none := 0
	for i := range isNew {
		switch got := isNew[i].Load(); {
		case got > 1:
			t.Fatalf("key %d was new to %d callers", i, got)
		case got == 0:
			none++
		}
	}
	// The rate rises from 0 to 1 % as the filter fills.
	if t.Logf("%d of %d keys were new to nobody", none, n); none > n/200 {
		t.Errorf("%d of %d keys were new to nobody, want at most half a percent", none, n)
	}
	if got := f.Count(); got != n-uint64(none) {
		t.Errorf("Count() = %d, want %d", got, n-none)
	}
}

// Each of many goroutines is counted.
func TestAtomicBlocked_CountExact(t *testing.T) {
	const adders, each = 4, 5000
	for _, keys := range []int{1, 60, 100_000} { // 1 line, 2 and many
		f := atomicOf(keys, 10)
		uncounted := Must(NewAtomicBlocked(AtomicBlockedOptions{Keys: 1000, Uncounted: true}))
		var wg sync.WaitGroup
		for a := range adders {
			wg.Go(func() {
				for _, h := range filtertest.RandomHashes(uint64(a), each) {
					f.AddHash(h)
					uncounted.AddHash(h)
				}
			})
		}
		wg.Wait()
		if got := f.Count(); got != adders*each {
			t.Errorf("Count() = %d, want %d", got, adders*each)
		}
		if got := uncounted.Count(); got != 0 {
			t.Errorf("Count() of an uncounted filter = %d", got)
		}
	}
	if got := new(AtomicBlocked).Count(); got != 0 {
		t.Errorf("Count() of the zero filter = %d", got)
	}
}

func TestAtomicBlocked_Zero(t *testing.T) {
	var f AtomicBlocked
	if !f.CheckAndAddHash(7) || !f.CheckAndAdd([]byte("a")) || !f.CheckAndAddString("a") || f.Sealed() || f.Seal() == nil {
		t.Error("the zero filter denies a key, or is sealed")
	}
	if b, err := f.AppendBinary([]byte("x")); err == nil || string(b) != "x" {
		t.Errorf("AppendBinary of the zero filter = %q, %v, want an error", b, err)
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
			benchSink = f.CheckAndAddString("a third key")
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
