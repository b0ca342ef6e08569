package main

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/shaledb/shale/internal/testenv"
)

func mustOpen(t *testing.T, dir string, limit int) *index {
	t.Helper()
	x, err := openIndex(dir, limit, 10)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// sample asks for a name, and adds it if it is not known.
func sample(x *index, name string, second int64) (verdict, error) {
	if there, err := x.has(name); there || err != nil {
		return known, err
	}
	return x.add(name, second)
}

// Every verdict is that of a map with the same limit, also after the index is opened again.
func TestAdd(t *testing.T) {
	rng := rand.New(rand.NewPCG(testenv.Seed(t), 0))
	dir := t.TempDir()
	const limit = 20
	names := make(map[string]bool)
	second := int64(100)
	var seen [3]int
	for range 4 {
		x := mustOpen(t, dir, limit)
		second++ // the count of a second ends with the program
		fresh := 0
		for range 2000 {
			if rng.IntN(50) == 0 {
				second, fresh = second+1+rng.Int64N(3), 0
			}
			late := int64(0)
			if fresh > 0 { // the index has met this second
				late = rng.Int64N(5)
			}
			name, want := fmt.Sprint("name", rng.IntN(2000)), known
			switch {
			case names[name]:
			case fresh == limit:
				want = refused
			default:
				want = added
				names[name] = true
				fresh++
			}
			if got, err := sample(x, name, second-late); got != want || err != nil {
				t.Fatalf("%s in second %d: %v, %v; want %v", name, second, got, err, want)
			}
			seen[want]++
		}
		if err := x.db.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if seen[known] == 0 || seen[added] == 0 || seen[refused] == 0 {
		t.Errorf("known, added and refused: %d", seen)
	}
}

// Of goroutines with the same new names, one adds each of them.
func TestAdd_Concurrent(t *testing.T) {
	const n = 300
	x := mustOpen(t, t.TempDir(), 4*n)
	var first atomic.Int64
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for i := range n {
				v, err := sample(x, fmt.Sprint("name", i), 1)
				if err != nil || v == refused {
					t.Errorf("%v, %v", v, err)
				}
				if v == added {
					first.Add(1)
				}
			}
		})
	}
	wg.Wait()
	if first.Load() != n {
		t.Errorf("%d names added, want %d", first.Load(), n)
	}
	if err := x.db.Close(); err != nil {
		t.Error(err)
	}
}

// Filters save nearly all searches for new names, and change no verdict.
func TestTakeTraffic(t *testing.T) {
	c := config{names: 20_000, samples: 1000, limit: 200}
	if testing.Short() || testenv.Race {
		c = config{names: 2000, samples: 100, limit: 20}
	}
	without, err := takeTraffic(t.Context(), c, t.TempDir(), -1)
	if err != nil {
		t.Fatal(err)
	}
	with, err := takeTraffic(t.Context(), c, t.TempDir(), 10)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("without %+v, with %+v", without, with)
	v := with.verdicts
	if without.verdicts != v || v[known]+v[added]+v[refused] != seconds*c.samples {
		t.Errorf("without filters %d, with them %d", without.verdicts, v)
	}
	// At least half of the flood is over the limit, and nothing of the calm seconds.
	if flood := floodEnds - floodBegins; v[refused] < c.samples*flood/2 || v[added] < c.limit*flood {
		t.Errorf("known, added and refused: %d", v)
	}
	if absent := uint64(v[added] + v[refused]); without.blocks < absent*9/10 || with.blocks > absent/40 {
		t.Errorf("%d names absent; %d searches without filters, %d with them", absent, without.blocks, with.blocks)
	}
}

func TestCompare(t *testing.T) {
	var out strings.Builder
	if err := compare(t.Context(), config{names: 100, samples: 10, limit: 2}, t.TempDir(), &out); err != nil || strings.Count(out.String(), "\n") != 4 {
		t.Errorf("%v\n%s", err, out.String())
	}
}
