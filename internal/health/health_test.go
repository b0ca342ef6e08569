package health

import (
	"errors"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/shaledb/shale/internal/base"
)

// A fakeLog stands for the store in tests of a Health.
type fakeLog struct {
	clock       time.Time
	syncFailed  bool
	refusals    []error
	resumptions []time.Duration
	mu          sync.Mutex
}

func (f *fakeLog) health() *Health {
	return New(Env{
		Now:           func() time.Time { return f.clock },
		LogSyncFailed: func() bool { return f.syncFailed },
		Refused: func(err error) {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.refusals = append(f.refusals, err)
		},
		Resumed: func(d time.Duration) { f.resumptions = append(f.resumptions, d) },
	})
}

// The first failure counts, unless it may pass and a later one may not.
func TestHealth_WorseFailureWins(t *testing.T) {
	f := &fakeLog{}
	h := f.health()
	full, broken := errors.New("full"), errors.New("broken")
	if h.Err() != nil || h.Recovers() {
		t.Fatal("it is ill from the beginning")
	}
	for _, step := range []struct {
		err    error
		passes bool
		want   error
	}{{full, true, full}, {errors.New("full again"), true, full}, {broken, false, broken}, {full, true, broken}, {errors.New("another"), false, broken}} {
		if err := h.Refuse(step.err, step.passes); !errors.Is(err, step.err) || !errors.Is(err, base.ErrReadOnly) {
			t.Errorf("the writer at hand gets %v, want %v", err, step.err)
		}
		if err := h.Err(); !errors.Is(err, step.want) || !errors.Is(err, base.ErrReadOnly) {
			t.Errorf("after %v: %v, want %v", step.err, err, step.want)
		}
	}
	if len(f.refusals) != 2 || h.Recovers() {
		t.Errorf("told %v, recovers: %v", f.refusals, h.Recovers())
	}
}

// A full disk passes, unless a sync of the log has failed.
func TestHealth_FullDisk(t *testing.T) {
	for _, syncFailed := range []bool{false, true} {
		f := &fakeLog{syncFailed: syncFailed}
		h := f.health()
		_ = h.LogFailed(syscall.ENOSPC)
		if h.Recovers() == syncFailed {
			t.Errorf("with a failed sync (%v) it recovers: %v", syncFailed, h.Recovers())
		}
	}
}

// Resolve ends only the failure that its caller has dealt with.
func TestHealth_Resolve(t *testing.T) {
	f := &fakeLog{clock: time.Unix(100, 0)}
	h := f.health()
	_ = h.Refuse(syscall.ENOSPC, true)
	first, err := h.Lasting()
	if err != nil || first == nil {
		t.Fatalf("lasting = %v, %v", first, err)
	}
	_ = h.Refuse(syscall.EIO, false)
	if err := h.Resolve(first); !errors.Is(err, syscall.EIO) || len(f.resumptions) > 0 {
		t.Errorf("resolve of an older failure: %v, told %v", err, f.resumptions)
	}
	if _, err := h.Lasting(); !errors.Is(err, syscall.EIO) {
		t.Errorf("lasting: %v", err)
	}
	f.clock = f.clock.Add(time.Minute)
	if err := h.Resolve(h.Current()); err != nil || len(f.resumptions) != 1 || f.resumptions[0] != time.Minute {
		t.Errorf("resolve: %v, told %v", err, f.resumptions)
	}
}

// A sync fails while Resume replaces the log. The error does not refuse the writes
// that Resume allows again, whether the log changes before or after current is called.
func TestHealth_SyncFailedBesideResume(t *testing.T) {
	for _, changed := range []bool{true, false} {
		h := new(fakeLog).health()
		_ = h.Refuse(errors.New("the sync of somebody else"), false)
		first := h.Current()
		_ = h.SyncFailed(errors.New("sync"), func() bool {
			if err := h.Resolve(first); err != nil {
				t.Fatal(err)
			}
			return !changed
		})
		if err := h.Err(); err != nil {
			t.Errorf("the log has changed before it was asked for: %v; writes are refused: %v", changed, err)
		}
	}
	// The store takes writes, fails, and is resumed, all between the two looks of SyncFailed.
	h := new(fakeLog).health()
	asked := 0
	_ = h.SyncFailed(errors.New("sync"), func() bool {
		if asked++; asked > 1 {
			return false // Resume has replaced the log
		}
		_ = h.Refuse(errors.New("somebody else's failure"), false)
		if err := h.Resolve(h.Current()); err != nil {
			t.Fatal(err)
		}
		return true // as it was found before all that
	})
	if err := h.Err(); err != nil || asked != 2 {
		t.Errorf("after a failure and Resume between the two looks: %v; writes are refused; asked %d times", err, asked)
	}
	h = new(fakeLog).health()
	if err := h.SyncFailed(errors.New("sync"), func() bool { return true }); err == nil || h.Current() == nil || h.Current().Passes {
		t.Errorf("a sync of the current log has failed: %v, %v", err, h.Current())
	}
}

// A lost directory is final, and its log is not to be trusted. If there was a fence, both causes are there.
func TestHealth_Lose(t *testing.T) {
	lost, fence := errors.New("lost"), errors.New("fence")
	for _, c := range []struct {
		before func(h *Health)
		want   []error
	}{
		{func(*Health) {}, []error{lost}},
		{func(h *Health) { _ = h.Refuse(syscall.ENOSPC, true) }, []error{lost}},
		{func(h *Health) { _ = h.Refuse(syscall.EIO, false) }, []error{lost}},
		{func(h *Health) { h.Fence(fence) }, []error{fence, lost}},
	} {
		f := &fakeLog{}
		h := f.health()
		c.before(h)
		h.Lose(lost)
		_ = h.Refuse(syscall.EIO, false)
		h.Fence(errors.New("later"))
		now := h.Current()
		if !now.Fenced || now.Intact || now.Passes || h.Recovers() {
			t.Errorf("after %v: %+v", c.want, now)
		}
		for _, want := range c.want {
			if !errors.Is(h.Err(), want) {
				t.Errorf("%v is not %v", h.Err(), want)
			}
		}
		if !errors.Is(f.refusals[len(f.refusals)-1], lost) {
			t.Errorf("told %v", f.refusals)
		}
	}
}
