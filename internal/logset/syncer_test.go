package logset

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/vfs"
	"github.com/shaledb/shale/vfs/faultfs"
	"github.com/shaledb/shale/wal"
)

// A syncWorld stands for the store in tests of a Syncer: a log whose syncs may fail.
type syncWorld struct {
	t   *testing.T
	log *wal.Writer
	seq base.Seq

	mu     sync.Mutex
	broken error // the error of syncs
	syncs  int
	told   []error
	*Syncer
}

// newSyncWorld starts the loop, which ends with the
// test. It is for tests in a bubble of testing/synctest.
func newSyncWorld(t *testing.T, periodic bool) *syncWorld {
	w := &syncWorld{t: t}
	fsys := faultfs.New(vfs.NewMem(), func(op vfs.Op, _ string, _ int64) error {
		if op != vfs.OpSync {
			return nil
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		w.syncs++
		return w.broken
	})
	if err := fsys.MkdirAll("d"); err != nil {
		t.Fatal(err)
	}
	var err error
	if w.log, err = wal.Create(wal.Header{Num: 1}, wal.Options{FS: fsys, Dir: "d"}); err != nil {
		t.Fatal(err)
	}
	logs := New(Env{})
	logs.current.Store(w.log)
	w.Syncer = logs.NewSyncer(SyncerEnv{
		Periodic: periodic,
		Every:    time.Second,
		Failed: func(log *wal.Writer, err error) error {
			if log != w.log {
				t.Error("the failure is that of another log")
			}
			w.mu.Lock()
			defer w.mu.Unlock()
			w.told = append(w.told, err)
			return err
		},
	})
	w.syncs = 0
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); w.Loop(ctx) }()
	t.Cleanup(func() { cancel(); <-ended })
	synctest.Wait()
	return w
}

func (w *syncWorld) set(broken error, none bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.broken = broken
	if w.logs.current.Store(w.log); none {
		w.logs.current.Store(nil)
	}
}

// write appends a record and nudges the loop, as the leader of the commit queue does.
func (w *syncWorld) write() { w.writeBytes(10) }

func (w *syncWorld) writeBytes(n int) {
	w.t.Helper()
	w.seq++
	end, err := w.log.Append(make([]byte, n), w.seq)
	if err != nil {
		w.t.Fatal(err)
	}
	w.nudge(w.log, end)
}

// after lets time pass and checks how often the log has been synced by then.
func (w *syncWorld) after(d time.Duration, syncs int) {
	w.t.Helper()
	time.Sleep(d)
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.syncs != syncs {
		w.t.Errorf("%d syncs, want %d", w.syncs, syncs)
	}
}

// A periodic log is synced at regular times, if there is something to sync.
func TestSyncer_Periodic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newSyncWorld(t, true)
		w.after(3500*time.Millisecond, 0)
		w.write()
		w.after(400*time.Millisecond, 0)
		w.after(200*time.Millisecond, 1)
		w.after(time.Minute, 1)
		if w.log.Synced() < w.log.Len() {
			t.Errorf("%d of %d bytes are synced", w.log.Synced(), w.log.Len())
		}
	})
}

// A batch that chose SyncPeriodic for itself is synced a while later.
// Batches that come until then share its sync. Other batches are not synced.
func TestSyncer_Soon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newSyncWorld(t, false)
		w.write()
		w.after(time.Hour, 0)
		for range 3 {
			w.write()
			base.Wake(w.soon)
			w.after(300*time.Millisecond, 0)
		}
		w.after(200*time.Millisecond, 1)
		w.after(time.Hour, 1)
		w.write()
		base.Wake(w.soon)
		w.after(1100*time.Millisecond, 2)
	})
}

// When much is unsynced and the system has no call for write-back, the log is synced at once.
func TestSyncer_Nudge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newSyncWorld(t, false)
		for range 8 {
			w.writeBytes(1 << 20)
			w.after(time.Hour, 0)
		}
		w.writeBytes(1 << 20)
		w.after(0, 1)
	})
}

// A sync that fails is reported. A store without a log has nothing to sync.
func TestSyncer_Failure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, broken := newSyncWorld(t, true), errors.New("broken")
		w.set(broken, false)
		w.write()
		w.after(1100*time.Millisecond, 1)
		w.mu.Lock()
		if len(w.told) != 1 || !errors.Is(w.told[0], broken) {
			t.Errorf("told %v, want %v", w.told, broken)
		}
		w.mu.Unlock()
		w.set(nil, true)
		base.Wake(w.wake)
		w.after(time.Minute, 1)
	})
}
