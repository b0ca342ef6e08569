// Package testenv is what the environment tells tests. It is for tests only.
//
// SHALE_LONG, such as 10m, is for how long tests that can go on and on do so.
// SHALE_SEED repeats what a failed test printed. SHALE_SLOW, such as 30, says how many
// times slower than others an emulated machine is.
package testenv

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"
)

// Seed chooses a seed, or takes that of SHALE_SEED, and has it printed if the test
// fails.
func Seed(t testing.TB) uint64 {
	seed := rand.Uint64()
	if s := os.Getenv("SHALE_SEED"); s != "" {
		var err error
		if seed, err = strconv.ParseUint(s, 10, 64); err != nil {
			t.Fatalf("SHALE_SEED: %v", err)
		}
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("SHALE_SEED=%d runs it again", seed)
		}
	})
	return seed
}

// Long is for how long tests go on; 0: they are to be brief.
func Long(t testing.TB) time.Duration {
	s := os.Getenv("SHALE_LONG")
	if s == "" {
		return 0
	}
	d, err := time.ParseDuration(s)
	if err != nil {
		t.Fatalf("SHALE_LONG: %v", err)
	}
	return d
}

// Slow is how many times longer than elsewhere something may take here: SHALE_SLOW, or 1.
func Slow() time.Duration {
	if s := os.Getenv("SHALE_SLOW"); s != "" {
		n, err := strconv.ParseUint(s, 10, 16)
		if err != nil {
			panic(fmt.Sprintf("SHALE_SLOW: %v", err))
		}
		return time.Duration(max(n, 1))
	}
	return 1
}

// SkipRace skips a test under the race detector that has nothing for it to see: it
// calls the store from one goroutine, and what runs in the background is part of
// other tests too. Under the detector it takes ten times as long.
func SkipRace(t testing.TB) {
	if Race {
		t.Skip("one goroutine: nothing for the race detector")
	}
}

// WaitFor waits until cond holds, for ten seconds at most (times Slow); after that the test fails. On a busy machine a pause between two
// looks takes longer than it should: that does not count. what says what it waits for.
func WaitFor(t testing.TB, what string, cond func() bool) {
	t.Helper()
	const pause = time.Millisecond
	for left := 10 * time.Second * Slow(); ; time.Sleep(pause) {
		begin := time.Now()
		if cond() {
			return
		}
		if left -= time.Since(begin) + pause; left < 0 {
			t.Fatalf("waited in vain for %s", what)
		}
	}
}
