// Package fuzzing holds what a fuzz target may use of time and memory. It is for
// tests only.
package fuzzing

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/shaledb/shale/internal/testenv"
)

// A Limit is how many bytes a decoder may allocate in all, freed ones included:
// so many, and so many more for each byte of its input.
type Limit struct{ Bytes, PerByte uint64 }

const (
	// slow is more of the processors' time than any input may take, without the race detector.
	slow = time.Second
	// hung is when to give up, with the stacks of all goroutines.
	hung = time.Minute
	// tries is how often fn is run before it is found to be over a limit: what
	// the collector took from a pool, or the machine gave to others, is not fn's.
	tries = 4
)

// Check runs fn, which decodes input bytes, and fails t if it allocates more
// than the limit or takes more than a second of the processors' time. It may run fn several times, so fn
// must do the same each time. It returns what was allocated.
//
// Nothing else may run in the process that allocates, and fn must wait for the
// goroutines that it starts.
func (l Limit) Check(t testing.TB, input int, fn func()) (allocated uint64) {
	t.Helper()
	defer testenv.Watch(hung, func() string { return fmt.Sprintf("an input of %d bytes", input) })()
	return l.check(t, input, func() (uint64, time.Duration) { return measure(fn) })
}

// Memory is Check without a limit of time, for a test that counts what fn does.
func (l Limit) Memory(t testing.TB, input int, fn func()) {
	t.Helper()
	defer testenv.Watch(hung, func() string { return fmt.Sprintf("an input of %d bytes", input) })()
	l.check(t, input, func() (uint64, time.Duration) {
		allocated, _ := measure(fn)
		return allocated, 0
	})
}

// slowest is more than any input may take.
func slowest() time.Duration {
	if testenv.Race {
		return 10 * slow * testenv.Slow()
	}
	return slow * testenv.Slow()
}

// check judges by the best of some measurements.
func (l Limit) check(t testing.TB, input int, measure func() (uint64, time.Duration)) (allocated uint64) {
	t.Helper()
	most := l.Bytes + l.PerByte*uint64(input)
	var took time.Duration
	for try := range tries {
		bytes, d := measure()
		if try == 0 {
			allocated, took = bytes, d
		}
		allocated, took = min(allocated, bytes), min(took, d)
		if allocated <= most && took <= slowest() || t.Failed() {
			return allocated
		}
	}
	if allocated > most {
		t.Errorf("%d bytes allocated for an input of %d, at most %d + %d a byte are allowed", allocated, input, l.Bytes, l.PerByte)
	}
	if took > slowest() {
		t.Errorf("an input of %d bytes takes %v", input, took)
	}
	return allocated
}

// Once runs fn, which is too much to be run again, and fails t if it allocates
// more than the limit. It panics, naming fn by what, if fn takes a minute.
func (l Limit) Once(t testing.TB, input int, what string, fn func()) {
	t.Helper()
	defer testenv.Watch(hung, func() string { return what })()
	most := l.Bytes + l.PerByte*uint64(input)
	if allocated, _ := measure(fn); allocated > most {
		t.Errorf("%s: %d bytes allocated, at most %d are allowed", what, allocated, most)
	}
}

func measure(fn func()) (allocated uint64, took time.Duration) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	begin := testenv.CPUTime()
	fn()
	took = testenv.CPUTime() - begin
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc, took
}
