package shale

import (
	"errors"
	"sync"
	"syscall"
	"testing"
	"time"
)

// A fakeLog is what a health sees of a store.
type fakeLog struct {
	clock       time.Time
	syncFailed  bool
	refusals    []error
	resumptions []time.Duration
	mu          sync.Mutex
}

func (f *fakeLog) health() *health {
	return newHealth(healthEnv{
		now:           func() time.Time { return f.clock },
		logSyncFailed: func() bool { return f.syncFailed },
		refused: func(err error) {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.refusals = append(f.refusals, err)
		},
		resumed: func(d time.Duration) { f.resumptions = append(f.resumptions, d) },
	})
}

// The first failure counts, unless a later one lasts and it does not.
func TestHealth_WorseFailureWins(t *testing.T) {
	f := &fakeLog{}
	h := f.health()
	full, broken := errors.New("full"), errors.New("broken")
	if h.err() != nil || h.recovers() {
		t.Fatal("it is ill from the beginning")
	}
	for _, step := range []struct {
		err    error
		passes bool
		want   error
	}{{full, true, full}, {errors.New("full again"), true, full}, {broken, false, broken}, {full, true, broken}, {errors.New("another"), false, broken}} {
		if err := h.refuse(step.err, step.passes); !errors.Is(err, step.err) || !errors.Is(err, ErrReadOnly) {
			t.Errorf("the writer at hand gets %v, want %v", err, step.err)
		}
		if err := h.err(); !errors.Is(err, step.want) || !errors.Is(err, ErrReadOnly) {
			t.Errorf("after %v: %v, want %v", step.err, err, step.want)
		}
	}
	if len(f.refusals) != 2 || h.recovers() {
		t.Errorf("told %v, recovers: %v", f.refusals, h.recovers())
	}
}

// A full disk passes, unless a sync of the log has met it.
func TestHealth_FullDisk(t *testing.T) {
	for _, syncFailed := range []bool{false, true} {
		f := &fakeLog{syncFailed: syncFailed}
		h := f.health()
		_ = h.logFailed(syscall.ENOSPC)
		if h.recovers() == syncFailed {
			t.Errorf("with a failed sync (%v) it recovers: %v", syncFailed, h.recovers())
		}
	}
}

// Only the failure that was dealt with is resolved.
func TestHealth_Resolve(t *testing.T) {
	f := &fakeLog{clock: time.Unix(100, 0)}
	h := f.health()
	_ = h.refuse(syscall.ENOSPC, true)
	first, err := h.lasting()
	if err != nil || first == nil {
		t.Fatalf("lasting = %v, %v", first, err)
	}
	_ = h.refuse(syscall.EIO, false)
	if err := h.resolve(first); !errors.Is(err, syscall.EIO) || len(f.resumptions) > 0 {
		t.Errorf("resolve of an older failure: %v, told %v", err, f.resumptions)
	}
	if _, err := h.lasting(); !errors.Is(err, syscall.EIO) {
		t.Errorf("lasting: %v", err)
	}
	f.clock = f.clock.Add(time.Minute)
	if err := h.resolve(h.failure.Load()); err != nil || len(f.resumptions) != 1 || f.resumptions[0] != time.Minute {
		t.Errorf("resolve: %v, told %v", err, f.resumptions)
	}
}

// When many goroutines fail at once, one failure is announced.
func TestHealth_OneRefusalIsTold(t *testing.T) {
	f := &fakeLog{}
	h := f.health()
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() { _ = h.refuse(syscall.EIO, false) })
	}
	wg.Wait()
	if len(f.refusals) != 1 {
		t.Errorf("told %d times", len(f.refusals))
	}
}
