package shale

import (
	"context"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/memqueue"
	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/internal/tree"
	"github.com/shaledb/shale/memtable"
	"github.com/shaledb/shale/vfs"
)

// A flushWorld stands for the store that a flusher belongs to, and records its calls. In a
// bubble of testing/synctest a flush takes exactly as long as it sleeps.
type flushWorld struct {
	t    *testing.T
	took time.Duration // by each flush

	mu      sync.Mutex
	waiting []*memqueue.Immutable // oldest first
	errs    []error               // of the next flushes; nil afterwards
	running int64
	ended   []flushOutcome
	retries []error
	slept   []time.Duration
	closed  bool // sleep returns at once and says that the store is closing
	*flusher
}

func newFlushWorld(t *testing.T, memtables int) *flushWorld {
	w := &flushWorld{t: t, took: time.Second}
	w.add(memtables)
	w.flusher = newFlusher(flusherEnv{
		oldest: func() *memqueue.Immutable {
			w.mu.Lock()
			defer w.mu.Unlock()
			if len(w.waiting) == 0 {
				return nil
			}
			return w.waiting[0]
		},
		started: func(n int64) {
			w.mu.Lock()
			defer w.mu.Unlock()
			if w.running += n; w.running < 0 || w.running > 1 {
				t.Errorf("%d flushes are under way", w.running)
			}
		},
		flush: w.flushOne,
		ended: func(f flushOutcome) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.ended = append(w.ended, f)
		},
		retry: func(err error) { w.retries = append(w.retries, err) },
		sleep: func(d time.Duration) bool {
			w.slept = append(w.slept, d)
			return !w.closed
		},
	})
	return w
}

// add appends memtables to those that wait to be flushed.
func (w *flushWorld) add(memtables int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for range memtables {
		m := memtable.New(memtable.Options{Size: 64 << 10})
		m.BeginWrite()
		m.Add(1, base.KindPut, []byte("key"), make([]byte, 1000))
		m.EndWrite()
		m.Freeze()
		w.waiting = append(w.waiting, &memqueue.Immutable{Mem: m})
	}
}

func (w *flushWorld) flushOne(imm *memqueue.Immutable) ([]*tree.Table, error) {
	time.Sleep(w.took)
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.errs) > 0 {
		err := w.errs[0]
		if w.errs = w.errs[1:]; err != nil {
			return nil, err
		}
	}
	if w.waiting[0] != imm {
		w.t.Error("the memtable is not the oldest")
	}
	w.waiting = w.waiting[1:]
	return []*tree.Table{{}}, nil
}

// The loop and several callers flush at the same time. Each memtable is flushed once, oldest
// first and one at a time.
func TestFlusher_OneAtATime(t *testing.T) {
	w := newFlushWorld(t, 6)
	w.took = time.Millisecond // real time: the clock of a bubble stops while a goroutine waits for a lock
	all := slices.Clone(w.waiting)
	ctx, cancel := context.WithCancel(t.Context())
	var loop, calls sync.WaitGroup
	loop.Go(func() { w.loop(ctx) })
	base.Wake(w.wake)
	for range 3 {
		calls.Go(func() {
			if err := w.flushAll(); err != nil || w.oldest() != nil {
				t.Errorf("flushAll: %v, with memtables left: %v", err, w.oldest() != nil)
			}
		})
	}
	calls.Wait()
	cancel()
	loop.Wait()
	for i, f := range w.ended {
		if f.imm != all[i] || len(f.out) != 1 || f.took < w.took || f.err != nil {
			t.Errorf("flush %d: %+v", i, f)
		}
	}
	if len(w.ended) != len(all) || w.running != 0 {
		t.Errorf("%d flushes of %d memtables, %d are under way", len(w.ended), len(all), w.running)
	}
}

// flushAll stops at the first flush that fails. The next call begins with that memtable.
func TestFlusher_AllStopsAtAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, broken := newFlushWorld(t, 3), errors.New("broken")
		w.errs = []error{nil, broken}
		if err := w.flushAll(); err != broken || len(w.waiting) != 2 {
			t.Errorf("flushAll = %v, with %d memtables left", err, len(w.waiting))
		}
		if last := w.ended[len(w.ended)-1]; last.err != broken || last.out != nil {
			t.Errorf("the last flush: %+v", last)
		}
		if err := w.flushAll(); err != nil || len(w.waiting) > 0 || len(w.retries) > 0 {
			t.Errorf("flushAll = %v, with %d memtables left, %d told retries", err, len(w.waiting), len(w.retries))
		}
	})
}

// The loop repeats a flush that has failed, with longer waits each time, until it succeeds. It
// ends when the store is closing.
func TestFlusher_Retries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, broken := newFlushWorld(t, 2), errors.New("broken")
		w.errs = []error{broken, broken, broken, nil, broken}
		ended := make(chan struct{})
		go func() { defer close(ended); w.loop(t.Context()) }()
		synctest.Wait()
		if len(w.ended) > 0 {
			t.Error("it flushes before it is woken")
		}
		base.Wake(w.wake)
		time.Sleep(time.Minute)
		synctest.Wait()
		want := []time.Duration{retryDelay(1), retryDelay(2), retryDelay(3), retryDelay(1)}
		if len(w.waiting) > 0 || !slices.Equal(w.slept, want) || len(w.retries) != len(want) {
			t.Errorf("%d memtables left, %d told retries, slept %v, want %v", len(w.waiting), len(w.retries), w.slept, want)
		}
		w.add(1)
		w.mu.Lock()
		w.errs, w.closed = []error{broken}, true
		w.mu.Unlock()
		base.Wake(w.wake)
		<-ended
		if len(w.waiting) != 1 {
			t.Error("a flush was tried again while the store is closing")
		}
	})
}

// The sequence number up to which all is in tables never becomes smaller.
func TestFlusher_FlushedSeqOnlyGrows(t *testing.T) {
	f := newFlusher(flusherEnv{})
	for _, step := range []struct{ seq, want base.Seq }{{7, 7}, {3, 7}, {8, 8}} {
		if f.raise(step.seq); f.flushedSeq.Load() != uint64(step.want) {
			t.Errorf("after %d: %d, want %d", step.seq, f.flushedSeq.Load(), step.want)
		}
	}
}

// A flush that takes longer than those before it lowers the measured speed while it runs. A
// flush that fails does not count.
func TestFlusher_Speed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFlushWorld(t, 1)
		bytes := float64(w.oldest().Mem.Taken())
		check := func(when string, want float64) {
			t.Helper()
			if got := w.speed.rate(); math.Abs(got/want-1) > 1e-9 {
				t.Errorf("%s: %.1f bytes a second, want %.1f", when, got, want)
			}
		}
		flush := func(took time.Duration) {
			w.add(1 - len(w.waiting))
			w.took = took
			_ = w.flushAll() // the error is one of the test's
		}
		check("before the first", firstFlushRate)
		flush(2 * time.Second)
		check("after the first", bytes/2)
		flush(time.Second)
		check("after a faster one", (bytes/2+bytes)/2)
		go flush(time.Minute)
		time.Sleep(time.Second)
		check("during a slow one, at first", bytes*3/4)
		time.Sleep(9 * time.Second)
		check("during a slow one", bytes/10)
		w.mu.Lock()
		w.errs = []error{errors.New("broken")}
		w.mu.Unlock()
		time.Sleep(time.Minute)
		check("after it has failed", bytes*3/4)
	})
}

// A flush whose table can't be created leaves no file, and its number is not kept as pending.
func TestFlush_FailedCreateLeavesNoNumber(t *testing.T) {
	faults := vfs.NewFault(vfs.NewMem(), nil)
	db := openTest(t, &Options{FS: faults, CompactionWorkers: -1})
	mustPut(t, db, "k", "v")
	faults.Inject(func(op vfs.Op, name string, _ int64) error {
		return errorIf(op == vfs.OpCreate && strings.HasSuffix(name, ".sst"), syscall.EIO)
	})
	if err := db.Flush(context.Background()); !errors.Is(err, syscall.EIO) {
		t.Fatalf("Flush = %v; want EIO", err)
	}
	faults.Inject(nil)
	if err := db.Flush(context.Background()); err != nil {
		t.Fatal(err)
	}
	if n := reflect.ValueOf(db.tree).Elem().FieldByName("pending").Len(); n != 0 {
		t.Errorf("%d tables are pending, and nothing makes one", n)
	}
}

// A flush that can't be written to the manifest removes its table. The next flush succeeds.
func TestFlush_FailedManifestLeavesNoTables(t *testing.T) {
	mem := vfs.NewMem()
	faults := vfs.NewFault(mem, nil)
	opts := small()
	opts.FS, opts.CompactionWorkers = faults, -1
	db := openTest(t, opts)
	fillRandom(t, db, 0, 50)
	failing := true
	faults.Inject(func(op vfs.Op, name string, _ int64) error {
		if op == vfs.OpSync && strings.Contains(name, "MANIFEST") && failing {
			return syscall.EIO
		}
		return nil
	})
	if err := db.Flush(context.Background()); !errors.Is(err, syscall.EIO) {
		t.Fatalf("Flush = %v; want EIO", err)
	}
	faults.Inject(nil)
	if err := db.Flush(context.Background()); err != nil {
		t.Fatal(err)
	}
	testenv.WaitFor(t, "the flush to be tried again", func() bool { return len(db.mems.View().Imms) == 0 })
	if n := tablesOnDisk(t, db, mem); n != 1 {
		t.Errorf("%d tables on disk; want 1", n)
	}
	if got, err := db.Get([]byte("key000000")); err != nil || !strings.HasPrefix(string(got), "0.") {
		t.Errorf("Get = %q, %v", got, err)
	}
}

// A flush that finds no room is tried again, each time later, and by itself.
func TestFlush_BacksOff(t *testing.T) {
	testenv.CheckLeaks(t)
	var full atomic.Bool
	faults := vfs.NewFault(vfs.NewMem(), func(op vfs.Op, name string, _ int64) error {
		if full.Load() && op == vfs.OpWrite && strings.HasSuffix(name, ".sst") {
			return syscall.ENOSPC
		}
		return nil
	})
	opts := tinyStore(faults)
	failed := make(chan time.Time, 1000)
	opts.OnEvent = func(e Event) {
		if e.Kind == EventBackgroundError && e.Reason == "flush" && errors.Is(e.Err, syscall.ENOSPC) {
			failed <- e.Time
		}
	}
	db := openTest(t, &opts)
	full.Store(true)
	for i := range 5 { // one memtable and a little
		mustPut(t, db, fmt.Sprint("key", i), strings.Repeat("v", 1000))
	}
	last := <-failed
	for n := 1; n <= 4; n++ {
		next := <-failed
		if next.Sub(last) < retryDelay(n) {
			t.Errorf("attempt %d came %v after the one before, want %v at least", n+1, next.Sub(last), retryDelay(n))
		}
		last = next
	}
	mustPut(t, db, "while", "the disk is full")
	full.Store(false)
	testenv.WaitFor(t, "the flush to succeed by itself", func() bool { return len(db.mems.View().Imms) == 0 })
	wantGet(t, db, "key0", strings.Repeat("v", 1000), true)
	wantGet(t, db, "while", "the disk is full", true)
}
