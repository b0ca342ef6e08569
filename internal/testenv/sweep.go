package testenv

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Sweeps try all cases of a kind: a crash at every operation, a fault at every
// one, damage to every byte. There are too many for every run of the tests, so
// a run tries a share of them, another one each time: a small one, or that of
// SHALE_SHARE, from 0 to 1. SHALE_LONG, such as 10m, is for how long tests that
// can go on and on do so. SHALE_SEED repeats what a failed test printed.

// A Share is the part of a sweep that a run tries.
type Share struct {
	seed uint64
	Part float64
}

// ShareOf returns the share to try: brief, less of it with -short and still
// less under the race detector, or what SHALE_SHARE asks for.
func ShareOf(t testing.TB, seed uint64, brief float64) Share {
	s := Share{seed, brief}
	if testing.Short() {
		s.Part /= 5
	}
	if Race {
		s.Part /= 4
	}
	if text := os.Getenv("SHALE_SHARE"); text != "" {
		var err error
		if s.Part, err = strconv.ParseFloat(text, 64); err != nil || s.Part <= 0 || s.Part > 1 {
			t.Fatalf("SHALE_SHARE is %q, want a number above 0, at most 1", text)
		}
	}
	return s
}

// Takes reports whether case n is of the share.
func (s Share) Takes(n uint64) bool {
	return s.Part >= 1 || rand.New(rand.NewPCG(s.seed, n)).Float64() < s.Part
}

func (s Share) String() string { return fmt.Sprintf("a share of %.4g, seed %d", s.Part, s.seed) }

// Sweep tries the cases, two at a time, until some have failed. One that takes
// a minute hangs.
func Sweep[C any](t *testing.T, cases []C, try func(i int, c C) error) {
	t.Helper()
	var wg sync.WaitGroup
	var next, failed atomic.Int64
	for range 2 {
		wg.Go(func() {
			for failed.Load() < 5 {
				i := int(next.Add(1)) - 1
				if i >= len(cases) {
					return
				}
				stop := Watch(time.Minute, func() string { return fmt.Sprintf("%s: case %d, %v", t.Name(), i, cases[i]) })
				err := try(i, cases[i])
				stop()
				if err != nil {
					failed.Add(1)
					t.Errorf("case %d, %v: %v", i, cases[i], err)
				}
			}
		})
	}
	wg.Wait()
}
