package sketch

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/shaledb/shale/bloom"
	"github.com/shaledb/shale/bloom/internal/filtertest"
	"github.com/shaledb/shale/internal/testenv"
)

// everything is a filter that lets every key pass: a zero filter does.
var everything = new(bloom.Filter)

func TestExact_RemembersWhatIsAbsent(t *testing.T) {
	f := filterOf(t, bloom.FilterOptions{Keys: 100}, 0, 1000) // ten times too many
	e := exactOf(f, 1<<20)
	asked := 0
	find := func(key []byte) (bool, error) {
		asked++
		return false, nil
	}
	passed := filtertest.FalsePositives(f, 3000)
	for range 3 {
		for i := range 3000 {
			if found, err := e.Lookup(fmt.Appendf(nil, "absent-%d", i), find); found || err != nil {
				t.Fatalf("Lookup = %v, %v", found, err)
			}
		}
	}
	if asked != passed || e.Len() != passed || filtertest.FalsePositives(e, 3000) != 0 {
		t.Errorf("%d lookups, %d remembered, %d still pass; %d false positives", asked, e.Len(), filtertest.FalsePositives(e, 3000), passed)
	}
	filtertest.CheckHas(t, e, 0, 1000)
	if e.Reset(); e.Len() != 0 || filtertest.FalsePositives(e, 3000) != passed {
		t.Errorf("after Reset %d are remembered", e.Len())
	}
	for i := range e.sets {
		if e.sets[i].used != 0 {
			t.Fatalf("an empty set holds %d bytes", e.sets[i].used)
		}
	}
}

func TestExact_LookupPassesOn(t *testing.T) {
	e := exactOf(everything, 1000)
	failed := errors.New("no disk")
	if found, err := e.Lookup([]byte("a"), func([]byte) (bool, error) { return false, failed }); found || err != failed {
		t.Errorf("Lookup = %v, %v", found, err)
	}
	if found, err := e.Lookup([]byte("a"), func([]byte) (bool, error) { return true, nil }); !found || err != nil {
		t.Errorf("Lookup = %v, %v", found, err)
	}
	if e.Len() != 0 || !e.MayContain([]byte("a")) {
		t.Error("an error or a yes was taken for a no")
	}
	if e.Filter() == nil {
		t.Error("no filter")
	}
}

// Sixteen keys have the same murmur3 hash. Only the one that was looked up is
// known as absent.
func TestExact_ComparesBytes(t *testing.T) {
	e := exactOf(everything, 1<<20)
	keys := filtertest.Collisions(t)
	e.Absent(keys[0], e.Since(keys[0]))
	for i, key := range keys {
		if e.MayContain(key) == (i == 0) {
			t.Errorf("key %d: MayContain = %v", i, i != 0)
		}
	}
}

// A key that is added during a lookup must not become absent.
func TestExact_PresentWins(t *testing.T) {
	e := exactOf(everything, 1<<20)
	key := []byte("a")
	since := e.Since(key)
	e.Present(key)
	if e.Absent(key, since); !e.MayContain(key) {
		t.Error("a key that came during the lookup is absent")
	}
	e.Absent(key, e.Since(key))
	if e.MayContain(key) {
		t.Error("an absent key is not remembered")
	}
	if e.Present(key); !e.MayContain(key) || e.Len() != 0 {
		t.Error("a key that came after the lookup is absent")
	}
}

// The list keeps within its bytes, whatever the keys are.
func TestExact_Bounded(t *testing.T) {
	r := rand.New(rand.NewPCG(8, 0))
	rounds := 20_000
	if filtertest.Short() {
		rounds = 2000
	}
	for _, size := range []int{0, 1, 5000, 100_000} {
		e := exactOf(everything, size)
		for range rounds {
			key := make([]byte, 1+r.IntN(1<<r.IntN(12)))
			for i := range key {
				key[i] = byte(r.Uint32())
			}
			e.Absent(key, e.Since(key))
			if len(key) < 900 && e.MayContain(key) {
				t.Fatalf("a key of %d bytes is not remembered", len(key))
			}
		}
		for i := range e.sets {
			s, used := &e.sets[i], 0
			for j := range s.ways {
				if x := s.ways[j].Load(); x != nil {
					used += x.size()
				}
			}
			if used != s.used || used > exactSetBytes {
				t.Fatalf("a set has %d bytes, counts %d, at most %d", used, s.used, exactSetBytes)
			}
		}
		if size > 5000 && e.SizeBytes() > size {
			t.Errorf("SizeBytes() = %d, asked for %d", e.SizeBytes(), size)
		}
	}
}

// Goroutines add keys, note absent ones and ask. A goroutine that has learnt that a key is
// there must never learn later that it is not.
func TestExact_Concurrent(t *testing.T) {
	const keys = 300
	var there [keys]atomic.Bool // what lookUp finds
	e := exactOf(everything, 2000)
	find := func(key []byte) (bool, error) { return there[int(key[0])|int(key[1])<<8].Load(), nil }
	name := func(i int) []byte { return []byte{byte(i), byte(i >> 8)} }
	var next atomic.Int64 // keys below it are announced
	var readers, writer sync.WaitGroup
	var done atomic.Bool
	for g := range 3 {
		readers.Go(func() {
			r := rand.New(rand.NewPCG(uint64(g), 9))
			for !done.Load() {
				announced := int(next.Load())
				i := r.IntN(keys)
				found, err := e.Lookup(name(i), find)
				if err != nil || !found && i < announced {
					t.Errorf("key %d of %d: %v, %v", i, announced, found, err)
					return
				}
			}
		})
	}
	writer.Go(func() {
		defer done.Store(true)
		for i := range keys {
			for range 20 { // known to be absent, in between
				if found, err := e.Lookup(name(keys-1), find); err != nil || found && i < keys-1 {
					t.Errorf("the last key: %v, %v", found, err)
				}
			}
			there[i].Store(true)
			e.Present(name(i))
			next.Store(int64(i + 1))
		}
	})
	writer.Wait()
	readers.Wait()
}

// A skewed stream of absent keys, for which Exact is made, gives the figures of
// its documentation.
func TestExact_Zipf(t *testing.T) {
	n, questions := 20_000, 200_000
	if testenv.Long(t) > 0 {
		n, questions = 1_000_000, 10_000_000
	} else if filtertest.Short() {
		n, questions = 2000, 20_000
	}
	f := filterOf(t, bloom.FilterOptions{Keys: uint64(n)}, 0, n)
	for _, size := range []int{64 << 10, 256 << 10, 1 << 20} {
		e, lookups, false0 := exactOf(f, size), 0, 0
		seed, _ := filtertest.Seed(t)
		r := rand.New(rand.NewPCG(seed, 10))
		find := func([]byte) (bool, error) { lookups++; return false, nil }
		// Rank i of n absent keys has a probability of about 1/i.
		for range questions {
			key := fmt.Appendf(nil, "absent-%d", int(math.Exp(r.Float64()*math.Log(float64(n)))))
			if f.MayContain(key) {
				false0++
			}
			if found, err := e.Lookup(key, find); found || err != nil {
				t.Fatal(found, err)
			}
		}
		t.Logf("%d questions to %d absent keys, Zipf: %d false positives, %d with a list of %d KiB (%d keys)", questions, n, false0, lookups, size>>10, e.Len())
		if lookups*2 > false0 && false0 > 100 {
			t.Errorf("%d lookups of %d false positives: a list does not help", lookups, false0)
		}
	}
}
