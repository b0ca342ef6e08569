package shale

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/vfs"
	"github.com/shaledb/shale/vfs/faultfs"
)

// A lack is a shortage that keeps a store from taking writes until it ends. The operations
// that hits names fail with cause.
type lack struct {
	name    string
	cause   error
	noMap   bool
	workers int // CompactionWorkers
	hits    func(op vfs.Op, name string) bool
}

var lacks = []lack{
	{"no room for tables", syscall.ENOSPC, false, -1, func(op vfs.Op, name string) bool {
		return op == vfs.OpCreate && strings.HasSuffix(name, ".sst")
	}},
	{"no room for compactions", syscall.ENOSPC, false, 1, createsMerged},
	{"no descriptors for logs", syscall.EMFILE, false, -1, func(op vfs.Op, name string) bool {
		return (op == vfs.OpCreate || op == vfs.OpOpenReadWrite) && strings.HasSuffix(name, ".wal")
	}},
	{"no room for logs", syscall.ENOSPC, false, -1, func(op vfs.Op, name string) bool {
		return (op == vfs.OpCreate || op == vfs.OpPreallocate) && strings.HasSuffix(name, ".wal")
	}},
	{"no room for the log to grow", syscall.EDQUOT, false, -1, func(op vfs.Op, name string) bool {
		return op == vfs.OpPreallocate && strings.HasSuffix(name, ".wal")
	}},
	{"no room in the log", syscall.ENOSPC, true, -1, func(op vfs.Op, _ string) bool {
		return op == vfs.OpWrite || op == vfs.OpCreate
	}},
	{"no room for the manifest", syscall.ENOSPC, false, -1, func(op vfs.Op, name string) bool {
		return (op == vfs.OpWrite || op == vfs.OpCreate) && strings.Contains(name, "MANIFEST")
	}},
}

// fails returns the error of an operation during the shortage.
func (l lack) fails(op vfs.Op, name string) error { return errorIf(l.hits(op, name), l.cause) }

// memtable returns the size of the memtables. They are small if level 0 has to become full.
func (l lack) memtable() int64 {
	if l.workers > 0 {
		return 16 << 10
	}
	return 256 << 10
}

// createsMerged reports whether its caller creates a table of a compaction.
func createsMerged(op vfs.Op, name string) bool {
	return op == vfs.OpCreate && strings.HasSuffix(name, ".sst") && strings.Contains(string(debug.Stack()), "mergeRange")
}

// During a shortage writes fail with its cause, which Err returns too. The store tries again by itself, at
// long intervals, however long the shortage lasts, and takes writes again within seconds after it. One
// event reports its beginning and one its end.
func TestRecovery_ByItself(t *testing.T) {
	for i, l := range lacks {
		if testenv.Race && i%6 != 0 {
			continue // the other cases have the same goroutines
		}
		t.Run(l.name, func(t *testing.T) { synctest.Test(t, func(t *testing.T) { recoverFrom(t, l) }) })
	}
}

// recoverFrom lets a store go through a shortage of an hour twice. The first time it resumes by itself, the
// second time by Resume.
func recoverFrom(t *testing.T, l lack) {
	mem := vfs.NewMem()
	var lacking atomic.Bool
	var tries atomic.Int64
	faults := faultfs.New(mem, func(op vfs.Op, name string, _ int64) error {
		if !lacking.Load() {
			return nil
		}
		err := l.fails(op, name)
		if err != nil {
			tries.Add(1)
		}
		return err
	})
	opts := Options{FS: faults, MemtableSize: l.memtable(), Durability: SyncManual, CompactionWorkers: l.workers}
	opts.testing.noMap = l.noMap
	var refusals refusals
	var lasted time.Duration
	opts.OnEvent = func(e Event) {
		refusals.note(t, e)
		if e.Kind == EventResumed {
			lasted = e.Duration
		}
	}
	db, err := Open("db", &opts)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close() // for a test that fails
	w := &countingWriter{acked: make(map[string]string)}
	for round := range 2 {
		lacking.Store(true)
		for n := 0; err == nil && n < 20_000; n++ {
			err = w.put(db)
		}
		if !errors.Is(err, ErrReadOnly) || !errors.Is(err, l.cause) {
			t.Fatalf("round %d: Put = %v, want ErrReadOnly with the cause", round, err)
		}
		begun := time.Now()
		if !refusals.refused() || !errors.Is(db.Err(), ErrReadOnly) || !errors.Is(db.Err(), l.cause) {
			t.Errorf("round %d: Err = %v while writes are refused, told of %v", round, db.Err(), refusals.refused())
		}
		if err := db.Resume(); err == nil {
			t.Errorf("round %d: Resume works", round)
		}
		tries.Store(0)
		time.Sleep(time.Hour)
		synctest.Wait()
		if n := tries.Load(); n < 100 || n > 10*3600/5 {
			t.Errorf("round %d: %d operations failed in an hour", round, n)
		}
		if err := w.put(db); !errors.Is(err, ErrReadOnly) {
			t.Errorf("round %d: Put = %v", round, err)
		}
		if n, err := db.Get([]byte("absent")); !errors.Is(err, ErrNotFound) {
			t.Errorf("round %d: Get = %q, %v", round, n, err)
		}
		lacking.Store(false)
		if round == 0 {
			time.Sleep(11 * time.Second)
			synctest.Wait()
		} else if err := db.Resume(); err != nil {
			t.Errorf("round %d: Resume: %v", round, err)
		}
		if err = db.Err(); err != nil || refusals.refused() || refusals.begins != round+1 {
			t.Fatalf("round %d: Err = %v, %d beginnings, refused %v, when nothing is lacking", round, err, refusals.begins, refusals.refused())
		}
		if lasted < time.Hour || lasted > time.Since(begun)+time.Minute {
			t.Errorf("round %d: the event says that it lasted %v", round, lasted)
		}
		for range 100 {
			if err = w.put(db); err != nil {
				t.Fatalf("round %d: Put: %v", round, err)
			}
		}
		wantAll(t, db, w.acked)
	}
	closeTest(t, db)
	wantNoOpenFiles(t, mem)
	opts.FS = mem
	if db, err = Open("db", &opts); err != nil {
		t.Fatal(err)
	}
	wantAll(t, db, w.acked)
	closeTest(t, db)
}

// Close during a shortage returns at once, ends the attempts to resume, and makes all acknowledged writes
// durable, unless the log itself has failed.
func TestRecovery_EndsWithClose(t *testing.T) {
	for _, l := range lacks {
		t.Run(l.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				mem := vfs.NewMem()
				var lacking atomic.Bool
				faults := faultfs.New(mem, func(op vfs.Op, name string, _ int64) error {
					if !lacking.Load() {
						return nil
					}
					return l.fails(op, name)
				})
				opts := Options{FS: faults, MemtableSize: l.memtable(), Durability: SyncManual, CompactionWorkers: l.workers,
					OnEvent: func(Event) {}}
				opts.testing.noMap = l.noMap
				db, err := Open("db", &opts)
				if err != nil {
					t.Fatal(err)
				}
				w := &countingWriter{acked: make(map[string]string)}
				for range 10 {
					if err := w.put(db); err != nil {
						t.Fatal(err)
					}
				}
				lacking.Store(true)
				for err == nil {
					err = w.put(db)
				}
				time.Sleep(time.Minute)
				broken := db.logs.Current().Err() != nil
				if err := db.Sync(); (err != nil) != broken {
					t.Errorf("Sync = %v, and the log is broken: %v", err, broken)
				}
				begun := time.Now()
				err = db.Close()
				if time.Since(begun) > time.Second {
					t.Errorf("Close took %v", time.Since(begun))
				}
				if err != nil && !errors.Is(err, l.cause) {
					t.Errorf("Close: %v", err)
				}
				wantNoOpenFiles(t, mem)
				if broken {
					return // the writes since the last sync may be lost
				}
				opts.FS = mem.Crash(vfs.CrashConfig{})
				if db, err = Open("db", &opts); err != nil {
					t.Fatal(err)
				}
				wantAll(t, db, w.acked)
				closeTest(t, db)
			})
		})
	}
}

// Some calls try at first whether a failure has passed. Once Close has begun they must return ErrClosed
// instead: they would begin a log that nothing closes.
func TestRecovery_NotBesideClose(t *testing.T) {
	calls := map[string]func(db *DB) error{
		"Flush":          func(db *DB) error { return db.Flush(context.Background()) },
		"Checkpoint":     func(db *DB) error { return db.Checkpoint("copy") },
		"Ingest":         func(db *DB) error { return db.Ingest(context.Background(), func(func(key, value []byte) bool) {}) },
		"RebuildFilters": func(db *DB) error { _, err := db.Inspect().RebuildFilters(context.Background()); return err },
	}
	for name, call := range calls {
		mem := vfs.NewMem()
		var full atomic.Bool
		faults := faultfs.New(mem, func(op vfs.Op, name string, _ int64) error {
			return errorIf(full.Load() && op == vfs.OpWrite && strings.HasSuffix(name, ".wal"), syscall.ENOSPC)
		})
		db := openTest(t, &Options{FS: faults, testing: testOptions{noMap: true}})
		full.Store(true)
		if err := db.Put([]byte("k"), nil); !errors.Is(err, syscall.ENOSPC) {
			t.Fatalf("Put = %v, want ENOSPC", err)
		}
		leading, end := make(chan bool), make(chan bool)
		go func() {
			_ = db.commits.Alone(context.Background(), func() error { close(leading); <-end; return nil })
		}()
		<-leading
		closed := make(chan error)
		go func() { closed <- db.Close() }()
		testenv.WaitFor(t, "Close to queue", func() bool { return db.life.Closing() && db.commits.Waiting() > 0 })
		done := make(chan error, 1)
		go func() { done <- call(db) }()
		select {
		case err := <-done:
			if !errors.Is(err, ErrClosed) {
				t.Errorf("%s beside Close = %v, want ErrClosed", name, err)
			}
		case <-time.After(5 * time.Second):
			t.Errorf("%s waits for the lead of a store that is closing", name)
		}
		close(end)
		if err := <-closed; err != nil && !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("Close = %v", err)
		}
		wantNoOpenFiles(t, mem)
	}
}

// A failed sync of the log is final, even if its error is that the disk is full, and even if the store lacks
// room already. Only Resume ends it.
func TestRecovery_NotAfterAFailedSync(t *testing.T) {
	for _, full := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			mem := vfs.NewMem()
			faults := faultfs.New(mem, nil)
			opts := Options{FS: faults, MemtableSize: 256 << 10, Durability: SyncManual, OnEvent: func(Event) {}}
			db, err := Open("db", &opts)
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close() // a bubble can't end while the store has goroutines
			mustPut(t, db, "k", "v")
			if full {
				faults.Inject(func(op vfs.Op, _ string, _ int64) error { return errorIf(op == vfs.OpPreallocate, syscall.ENOSPC) })
				if err := db.Put([]byte("large"), make([]byte, 100<<10)); !errors.Is(err, syscall.ENOSPC) {
					t.Fatalf("Put = %v", err)
				}
			}
			faults.Inject(faultfs.FailAt(1, syscall.ENOSPC, vfs.OpSync))
			if err := db.Sync(); !errors.Is(err, syscall.ENOSPC) {
				t.Fatalf("Sync = %v", err)
			}
			faults.Inject(nil)
			time.Sleep(time.Hour)
			synctest.Wait()
			if !errors.Is(db.Err(), syscall.ENOSPC) {
				t.Errorf("Err = %v an hour after a failed sync", db.Err())
			}
			if err := db.Flush(context.Background()); !errors.Is(err, ErrReadOnly) {
				t.Errorf("Flush = %v", err)
			}
			if err := db.Resume(); err != nil {
				t.Fatal(err)
			}
			mustPut(t, db, "k2", "v")
			closeTest(t, db)
		})
	}
}

// Writes are refused because level 0 is full and compactions fail. Once a compaction can succeed, Resume runs
// one at once, and does not return the error of an earlier one.
func TestResume_AfterAFailedCompaction(t *testing.T) {
	for _, cause := range []error{syscall.EIO, syscall.ENOSPC} {
		synctest.Test(t, func(t *testing.T) {
			var failing atomic.Bool
			faults := faultfs.New(vfs.NewMem(), func(op vfs.Op, name string, _ int64) error {
				return errorIf(failing.Load() && createsMerged(op, name), cause)
			})
			opts := Options{FS: faults, MemtableSize: 16 << 10, Durability: SyncManual, CompactionWorkers: 1, OnEvent: func(Event) {}}
			db := mustOpen(t, "db", &opts)
			w := &countingWriter{acked: make(map[string]string)}
			for round := range 3 {
				failing.Store(true)
				var err error
				for n := 0; err == nil && n < 50_000; n++ {
					err = w.put(db)
				}
				if !errors.Is(err, ErrReadOnly) || !errors.Is(err, cause) {
					t.Fatalf("round %d: Put = %v, want ErrReadOnly with the cause", round, err)
				}
				if err := db.Resume(); !errors.Is(err, cause) {
					t.Errorf("round %d: Resume while compactions fail: %v", round, err)
				}
				failing.Store(false)
				begin := time.Now()
				if err := db.Resume(); err != nil || time.Since(begin) > time.Second {
					t.Errorf("round %d: Resume = %v after %v", round, err, time.Since(begin))
				}
				if err := w.put(db); err != nil {
					t.Errorf("round %d: Put = %v", round, err)
				}
			}
			wantAll(t, db, w.acked)
			closeTest(t, db)
		})
	}
}

// refusals follows the events that tell whether writes are refused.
type refusals struct {
	mu     sync.Mutex
	on     bool
	begins int
}

// note checks that beginning and end take turns.
func (r *refusals) note(t *testing.T, e Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch e.Kind {
	case EventReadOnly:
		if r.on || e.Err == nil {
			t.Errorf("%v, %v while writes are refused: %v", e.Kind, e.Err, r.on)
		}
		r.on = true
		r.begins++
	case EventResumed:
		if !r.on {
			t.Errorf("%v though writes were not refused", e.Kind)
		}
		r.on = false
	}
}

func (r *refusals) refused() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.on
}

// A countingWriter makes writes that differ and keeps those that succeeded.
type countingWriter struct {
	serial int
	acked  map[string]string
}

func (w *countingWriter) put(db *DB) error {
	key, value := fmt.Sprintf("key%04d", w.serial*7919%997), fmt.Sprint(w.serial, strings.Repeat(".", 90))
	w.serial++
	err := db.Put([]byte(key), []byte(value))
	if err == nil {
		w.acked[key] = value
	}
	return err
}

// wantAll checks that the store holds just these entries.
func wantAll(t *testing.T, db *DB, want map[string]string) {
	t.Helper()
	n := 0
	for e, err := range db.Scan(Range{}) {
		if err != nil {
			t.Errorf("Scan: %v", err)
			return
		}
		if n++; want[string(e.Key)] != string(e.Value) {
			t.Errorf("%q is %.20q, want %.20q", e.Key, e.Value, want[string(e.Key)])
			return
		}
	}
	if n != len(want) {
		t.Errorf("%d entries, want %d", n, len(want))
	}
}

// Two attempts find the disk full at the same time. Whichever gives up first what the store has reserved,
// there is more room for both afterwards, so both are worth another attempt. A later one is not.
func TestGiveUp_RoomForAllThatFoundNone(t *testing.T) {
	opts := tinyStore(vfs.NewMem())
	opts.CompactionWorkers = -1
	db := openTest(t, &opts)
	for i := range 200 {
		mustPut(t, db, fmt.Sprintf("key%03d", i), strings.Repeat("v", 100))
	}
	mustFlush(t, db)
	if _, kept := db.logs.Spare(); kept == 0 {
		t.Fatal("no log is kept to be used again")
	}
	db.awaitDeletions(t.Context())
	freed := db.deleter.Freed()
	for attempt := range 2 {
		if !db.giveUpReserve(freed) {
			t.Errorf("attempt %d is not worth another one", attempt)
		}
	}
	db.giveUpRoom(0)
	if db.giveUpRoom(db.deleter.Freed()) {
		t.Error("there is always something to give up")
	}
}
