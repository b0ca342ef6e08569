package wal

import (
	"errors"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/vfs"
)

// gateFS lets a test stop syncs in the middle.
type gateFS struct {
	vfs.FS
	gate *gate
}

type gate struct {
	entered chan struct{}
	leave   chan error
	on      atomic.Bool
}

type gateFile struct {
	vfs.File
	gate *gate
}

func (f gateFS) Create(name string) (vfs.File, error) {
	file, err := f.FS.Create(name)
	return gateFile{file, f.gate}, err
}

func (f gateFile) Sync() error {
	if f.gate.on.Load() {
		f.gate.entered <- struct{}{}
		if err := <-f.gate.leave; err != nil {
			return err
		}
	}
	return f.File.Sync()
}

func newGate(t *testing.T) (*Writer, *gate) {
	g := &gate{entered: make(chan struct{}), leave: make(chan error)}
	w := mustCreate(t, Header{Num: 7, StoreID: testStore}, Options{FS: gateFS{vfs.NewMem(), g}})
	g.on.Store(true)
	return w, g
}

// TestSyncTo_Shared checks that all callers that come during a sync share the next one, and
// that Append does not wait for syncs.
func TestSyncTo_Shared(t *testing.T) {
	w, g := newGate(t)
	var wg sync.WaitGroup
	first := mustAppend(t, w, "first", 1)
	wg.Go(func() {
		if err := w.SyncTo(first, nil); err != nil {
			t.Error(err)
		}
	})
	<-g.entered
	for i := range 20 {
		end := mustAppend(t, w, testPayload(i, 100), 1)
		wg.Go(func() {
			if err := w.SyncTo(end, nil); err != nil || w.Synced() < end {
				t.Errorf("SyncTo(%d) = %v, synced up to %d", end, err, w.Synced())
			}
		})
	}
	if w.Synced() >= first {
		t.Error("a sync counts before it has returned")
	}
	g.leave <- nil
	<-g.entered // all appends came before this one
	g.leave <- nil
	wg.Wait()
	if syncs, _ := w.Stats(); syncs != 2 || w.Synced() != w.Len() {
		t.Errorf("%d syncs up to %d, want 2 up to %d", syncs, w.Synced(), w.Len())
	}
	mustClose(t, w)
}

// TestSyncTo_FailureReachesAll checks that callers that wait for a sync which fails get its
// error, and so do those that wait for the next one. There is no next sync.
func TestSyncTo_FailureReachesAll(t *testing.T) {
	w, g := newGate(t)
	var wg sync.WaitGroup
	var failed atomic.Int32
	for i := range 10 {
		end := mustAppend(t, w, testPayload(i, 100), 1)
		wg.Go(func() {
			if err := w.SyncTo(end, nil); errors.Is(err, syscall.EIO) {
				failed.Add(1)
			}
		})
	}
	<-g.entered
	g.leave <- syscall.EIO
	wg.Wait()
	if syncs, _ := w.Stats(); failed.Load() != 10 || syncs != 1 || w.Synced() != headerSize {
		t.Errorf("%d of 10 failed after %d syncs, synced up to %d, want all after one, %d", failed.Load(), syncs, w.Synced(), headerSize)
	}
	if _, err := w.Append([]byte("a"), 2); !errors.Is(err, syscall.EIO) {
		t.Errorf("Append after a failed sync = %v, want EIO", err)
	}
	mustClose(t, w)
}

// TestClose_WaitsForSync checks that the file is not closed during a sync.
func TestClose_WaitsForSync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, g := newGate(t)
		end := mustAppend(t, w, "a", 1)
		synced, closed := make(chan error, 1), make(chan error, 1)
		go func() { synced <- w.SyncTo(end, nil) }()
		<-g.entered
		go func() { closed <- w.Close() }()
		synctest.Wait() // both goroutines are blocked
		select {
		case err := <-closed:
			t.Errorf("Close = %v during a sync, want it to wait", err)
		default:
		}
		g.leave <- nil
		if err := <-synced; err != nil {
			t.Errorf("SyncTo beside Close = %v", err)
		}
		if err := <-closed; err != nil {
			t.Errorf("Close beside SyncTo = %v", err)
		}
	})
}

// TestWriter_Concurrent appends while many goroutines sync, for the race detector. Each
// record is durable when its SyncTo returns.
func TestWriter_Concurrent(t *testing.T) {
	for _, mode := range modes {
		mem := vfs.NewMem()
		o := mode.o
		o.FS = mem
		w := mustCreate(t, Header{Num: 7, StoreID: testStore}, o)
		var want []string
		ends := make(chan int64, 8)
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for end := range ends {
					if err := w.SyncTo(end, nil); err != nil || w.Synced() < end || w.Len() < end {
						t.Errorf("SyncTo(%d) = %v, synced up to %d of %d", end, err, w.Synced(), w.Len())
					}
				}
			})
		}
		for i := range 400 {
			want = append(want, testPayload(i, 400))
			ends <- mustAppend(t, w, want[i], base.Seq(i))
		}
		close(ends)
		wg.Wait()
		got, _, err := readLog(mem.Crash(vfs.CrashConfig{}), 7, ReadOptions{Known: -1})
		if err != nil {
			t.Fatal(err)
		}
		checkPayloads(t, got, want)
		mustClose(t, w)
	}
}
