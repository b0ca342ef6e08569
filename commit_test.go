package shale

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shaledb/shale/vfs"
)

// A syncGate is a file system in memory whose syncs of logs wait, while it is
// shut, until it opens or fails them.
type syncGate struct {
	*vfs.FaultFS
	mem  *vfs.Mem
	shut atomic.Bool
	open chan error
}

func newSyncGate() *syncGate {
	g := &syncGate{mem: vfs.NewMem(), open: make(chan error)}
	g.FaultFS = vfs.NewFault(g.mem, func(op vfs.Op, name string, _ int64) error {
		if op == vfs.OpSync && strings.HasSuffix(name, ".wal") && g.shut.Load() {
			return <-g.open
		}
		return nil
	})
	return g
}

// batchOf returns a batch of one put with a durability of its own.
func batchOf(t *testing.T, key string, d Durability) *Batch {
	t.Helper()
	b := new(Batch)
	if err := b.Put([]byte(key), []byte("value")); err != nil {
		t.Fatal(err)
	}
	b.SetDurability(d)
	return b
}

// TestCommit_VisibleBeforeDurable is the rule of stores that are not SyncEach:
// while the disk syncs for one writer, readers see its batch, others write, and
// the writer waits. After its return the batch survives a power cut, and so does
// all that was written before it.
func TestCommit_VisibleBeforeDurable(t *testing.T) {
	for _, d := range []Durability{SyncManual, SyncPeriodic} {
		synctest.Test(t, func(t *testing.T) {
			g := newSyncGate()
			db, err := Open("db", &Options{FS: g, Durability: d, SyncEvery: time.Hour})
			if err != nil {
				t.Fatal(err)
			}
			mustPut(t, db, "before", "value")
			g.shut.Store(true)
			done := make(chan error, 1)
			go func() { done <- db.Write(context.Background(), batchOf(t, "synced", SyncEach)) }()
			synctest.Wait() // the writer is as far as it gets
			select {
			case err := <-done:
				t.Errorf("a synced write returned %v before the sync", err)
				done <- err
			default:
			}
			wantGet(t, db, "synced", "value", true)
			for i := 0; i < 3 && !t.Failed(); i++ { // these wait for nobody
				mustPut(t, db, fmt.Sprint("unsynced", i), "value")
			}
			if ok, err := db.PutIfAbsent([]byte("before"), nil); ok || err != nil {
				t.Errorf("PutIfAbsent of a key that is visible = %v, %v", ok, err)
			}
			g.shut.Store(false)
			select {
			case g.open <- nil:
			default: // it has failed already
			}
			if err := <-done; err != nil {
				t.Fatal(err)
			}
			after, err := Open("db", &Options{FS: g.mem.Crash(vfs.CrashConfig{})})
			if err != nil {
				t.Fatal(err)
			}
			wantGet(t, after, "before", "value", true)
			wantGet(t, after, "synced", "value", true)
			closeTest(t, after)
			closeTest(t, db)
		})
	}
}

// TestCommit_DurableBeforeVisible is the rule of stores with SyncEach: what one
// writer waits to have synced nobody sees, and nothing overtakes it.
func TestCommit_DurableBeforeVisible(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newSyncGate()
		db, err := Open("db", &Options{FS: g})
		if err != nil {
			t.Fatal(err)
		}
		g.shut.Store(true)
		done := make(chan error, 2)
		go func() { done <- db.Put([]byte("synced"), []byte("value")) }()
		synctest.Wait()
		go func() { done <- db.Write(context.Background(), batchOf(t, "unsynced", SyncManual)) }()
		synctest.Wait()
		wantGet(t, db, "synced", "", false)
		wantGet(t, db, "unsynced", "", false)
		g.shut.Store(false)
		g.open <- nil
		for range 2 {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		wantGet(t, db, "synced", "value", true)
		wantGet(t, db, "unsynced", "value", true)
		closeTest(t, db)
	})
}

// TestCommit_SyncFails: all writers that wait for a sync that fails get its error,
// and the store is read-only. What they wrote was visible and stays so: Resume
// makes it durable.
func TestCommit_SyncFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newSyncGate()
		db, err := Open("db", &Options{FS: g, Durability: SyncManual, OnEvent: func(Event) {}})
		if err != nil {
			t.Fatal(err)
		}
		g.shut.Store(true)
		errs := make(chan error, 3)
		for i := range 3 {
			go func() { errs <- db.Write(context.Background(), batchOf(t, fmt.Sprint(i), SyncEach)) }()
			synctest.Wait()
		}
		g.shut.Store(false)
		disk := errors.New("the disk is broken")
		g.open <- disk
		for range 3 {
			if err := <-errs; !errors.Is(err, disk) || !errors.Is(err, ErrReadOnly) {
				t.Errorf("Write = %v, want ErrReadOnly and the cause", err)
			}
		}
		if err := db.Put([]byte("k"), nil); !errors.Is(err, disk) {
			t.Errorf("Put = %v, want the cause", err)
		}
		if err := db.Resume(); err != nil {
			t.Fatal(err)
		}
		for i := range 3 {
			wantGet(t, db, fmt.Sprint(i), "value", true)
		}
		closeTest(t, db)
	})
}

// TestCommit_CloseBesideSyncs: a writer that waits for a sync outside the queue
// while the store is closed is done or gets ErrClosed.
func TestCommit_CloseBesideSyncs(t *testing.T) {
	for round := range 30 {
		db := openTest(t, &Options{FS: vfs.NewMem(), Durability: SyncManual, MemtableSize: 4 << 10})
		var wg sync.WaitGroup
		for w := range 4 {
			wg.Go(func() {
				for i := 0; ; i++ {
					b := new(Batch)
					_ = b.Put(fmt.Appendf(nil, "%d-%d", w, i), make([]byte, 100)) // far below every limit
					b.SetDurability([]Durability{SyncEach, SyncManual}[w%2])
					if err := db.Write(context.Background(), b); err != nil {
						if err != ErrClosed {
							t.Errorf("Write beside Close = %v", err)
						}
						return
					}
				}
			})
		}
		for range round {
			runtime.Gosched()
		}
		closeTest(t, db)
		wg.Wait()
	}
}

// TestWrite_RefusesForeignBatches: a batch that is nil or was decoded is refused
// before it reaches the queue, and the store goes on.
func TestWrite_RefusesForeignBatches(t *testing.T) {
	db := openTest(t, small())
	own := batchOf(t, "k", SyncEach)
	_, decoded, err := DecodeBatch(own.setSeq(1))
	if err != nil {
		t.Fatal(err)
	}
	for name, b := range map[string]*Batch{"nil": nil, "decoded": decoded} {
		if err := db.Write(context.Background(), b); !errors.Is(err, ErrBatchNotWritable) {
			t.Errorf("Write of a batch that is %s = %v, want ErrBatchNotWritable", name, err)
		}
	}
	if err := decoded.Put([]byte("k"), nil); !errors.Is(err, ErrBatchNotWritable) {
		t.Errorf("Put into a decoded batch = %v, want ErrBatchNotWritable", err)
	}
	decoded.Reset()
	if err := decoded.Put([]byte("fresh"), []byte("1")); err != nil {
		t.Fatal(err)
	}
	if err := db.Write(context.Background(), decoded); err != nil {
		t.Errorf("Write of a batch that was Reset = %v", err)
	}
	wantGet(t, db, "fresh", "1", true)
	mustPut(t, db, "after", "value")
}

// TestCommit_LeaderFails: a leader whose turn ends by a panic or by Goexit leaves
// a store that is read-only, and not a queue that waits for ever. The batch here
// has bytes that no method makes: it stands for a mistake of our own.
func TestCommit_LeaderFails(t *testing.T) {
	fail := map[string]func(){"panic": func() { panic("by intention") }, "Goexit": runtime.Goexit}
	for name, how := range fail {
		db := openTest(t, &Options{FS: vfs.NewMem(), Durability: SyncManual, OnEvent: func(Event) {}})
		mustPut(t, db, "k", "v")
		done := make(chan struct{})
		go func() {
			defer close(done)
			defer func() { _ = recover() }()                                               // as net/http does
			_ = db.commits.Alone(context.Background(), func() error { how(); return nil }) // does not return
		}()
		<-done
		if err := db.Put([]byte("k2"), nil); !errors.Is(err, ErrReadOnly) {
			t.Errorf("%s: Put afterwards = %v, want ErrReadOnly", name, err)
		}
		wantGet(t, db, "k", "v", true)
		if err := db.Resume(); err != nil {
			t.Errorf("%s: Resume = %v", name, err)
		}
		mustPut(t, db, "k3", "v")
		closeTest(t, db)
	}
}

// A panicHandler is a slog.Handler that fails, as a Logger of the caller's may.
type panicHandler struct {
	slog.Handler
	fail func()
}

func (h panicHandler) Enabled(context.Context, slog.Level) bool { return true }
func (h panicHandler) Handle(context.Context, slog.Record) error {
	h.fail()
	return nil
}

// TestEmit_ListenersThatFail: OnEvent and Logger may panic or exit in every
// event, of the leader, the flusher and the compactor. The store works on, and
// the failure is reported once, to the other listener.
func TestEmit_ListenersThatFail(t *testing.T) {
	fail := map[string]func(){"panicked: by intention": func() { panic("by intention") }, "called runtime.Goexit": runtime.Goexit}
	for want, how := range fail {
		for _, who := range []string{"OnEvent", "Logger"} {
			var reports atomic.Int32
			heard := func(message string) {
				if strings.Contains(message, who+" "+want) {
					reports.Add(1)
				}
			}
			o := small()
			o.MemtableSize = 4 << 10
			if who == "OnEvent" {
				o.OnEvent = func(Event) { how() }
				o.Logger = slog.New(slog.NewTextHandler(writerFunc(func(p []byte) (int, error) { heard(string(p)); return len(p), nil }), nil))
			} else {
				o.Logger = slog.New(panicHandler{fail: how})
				o.OnEvent = func(e Event) {
					if e.Err != nil {
						heard(e.Err.Error())
					}
				}
			}
			db := openTest(t, o)
			for i := range 300 {
				mustPut(t, db, fmt.Sprint("key", i), strings.Repeat("v", 100))
			}
			if err := db.Flush(context.Background()); err != nil {
				t.Error(err)
			}
			if err := db.Compact(context.Background(), Range{}); err != nil {
				t.Error(err)
			}
			wantGet(t, db, "key7", strings.Repeat("v", 100), true)
			closeTest(t, db)
			if n := reports.Load(); n != 1 {
				t.Errorf("%s %s: reported %d times, want once", who, want, n)
			}
		}
	}
}
