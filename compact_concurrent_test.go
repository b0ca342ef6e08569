package shale

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/vfs"
	"github.com/shaledb/shale/vfs/faultfs"
)

// besideOptions returns options for a store whose disk takes d for each write of a table. While
// db holds the store, deepest records how many runs level 0 had at most after a flush.
func besideOptions(d time.Duration, db *atomic.Pointer[DB], deepest *atomic.Int64) *Options {
	return &Options{
		FS: slowTables(func() time.Duration { return d }), MemtableSize: 64 << 10, TableSize: 64 << 10, Durability: SyncManual,
		CompactionWorkers: 1, Compression: NoCompression,
		OnEvent: func(e Event) {
			if d := db.Load(); d != nil && e.Kind == EventFlush {
				deepest.Store(max(deepest.Load(), int64(len(d.mems.View().Meta.Levels[0].Runs))))
			}
		},
	}
}

// putUntil writes keys out of n in scattered order until stop is closed. It returns how many
// writes it made, and how long the slowest of them took.
func putUntil(t *testing.T, db *DB, n int, stop <-chan struct{}) (written int, longest time.Duration) {
	value := make([]byte, 200)
	for {
		select {
		case <-stop:
			return written, longest
		default:
		}
		begin := time.Now()
		if err := db.Put(fmt.Appendf(nil, "key%08d", written*7919%n), value); err != nil {
			t.Error(err)
			return written, longest
		}
		longest = max(longest, time.Since(begin))
		written++
	}
}

// TestCompact_BesideWriters compacts a whole store while a goroutine writes as fast as the store
// lets it. Level 0 stays below the depth at which writers stop, no write waits long, and Compact
// ends. Time is the bubble's, so that only waits take time.
func TestCompact_BesideWriters(t *testing.T) {
	const bound = 200 * time.Millisecond
	keys := 40_000
	if testenv.Race {
		keys = 15_000
	}
	for _, jobs := range []int{1, 3} {
		if testenv.Race && jobs == 1 {
			continue // the case of three has the same goroutines
		}
		synctest.Test(t, func(t *testing.T) {
			var handle atomic.Pointer[DB]
			var deepest atomic.Int64
			db := mustOpen(t, "db", besideOptions(500*time.Microsecond, &handle, &deepest))
			longestPut(t, db, keys)
			mustFlush(t, db)
			handle.Store(db)

			stop := make(chan struct{})
			var compacting, writing sync.WaitGroup
			begin := time.Now()
			for range jobs {
				compacting.Go(func() {
					if err := db.Compact(t.Context(), Range{}); err != nil {
						t.Errorf("Compact: %v", err)
					}
				})
			}
			var written int
			var longest time.Duration
			writing.Go(func() { written, longest = putUntil(t, db, keys, stop) })
			compacting.Wait()
			close(stop)
			writing.Wait()
			t.Logf("%d at once: %v, %d writes meanwhile, the longest wait %v, up to %d runs in level 0",
				jobs, time.Since(begin), written, longest, deepest.Load())
			if deepest.Load() >= stopRuns {
				t.Errorf("level 0 had %d runs, want less than %d", deepest.Load(), stopRuns)
			}
			if longest > bound {
				t.Errorf("a write waited for %v", longest)
			}
			if written < keys/10 {
				t.Errorf("only %d writes meanwhile: too few to tell", written)
			}
			closeTest(t, db)
		})
	}
}

// TestCompact_DeadlineAndClose runs two calls of Compact while a goroutine writes. The context of
// one ends, and the store is closed during the other.
func TestCompact_DeadlineAndClose(t *testing.T) {
	const keys = 20_000
	for _, workers := range []int{-1, 1} {
		synctest.Test(t, func(t *testing.T) {
			var handle atomic.Pointer[DB]
			var deepest atomic.Int64
			opts := besideOptions(2*time.Millisecond, &handle, &deepest)
			opts.CompactionWorkers = workers
			db := mustOpen(t, "db", opts)
			longestPut(t, db, keys)
			var wg sync.WaitGroup
			wg.Go(func() {
				for i := 0; ; i++ {
					if err := db.Put(fmt.Appendf(nil, "key%08d", i*7919%keys), make([]byte, 200)); err != nil {
						if !errors.Is(err, ErrClosed) {
							t.Errorf("Put: %v", err)
						}
						return
					}
				}
			})
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			wg.Go(func() {
				if err := db.Compact(ctx, Range{}); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("Compact with a deadline: %v", err)
				}
			})
			wg.Go(func() {
				if err := db.Compact(t.Context(), Range{}); !errors.Is(err, ErrClosed) {
					t.Errorf("Compact under Close: %v", err)
				}
			})
			time.Sleep(100 * time.Millisecond)
			if err := db.Close(); err != nil {
				t.Errorf("Close: %v", err)
			}
			wg.Wait()
			if !db.scheduler.Unused() {
				t.Error("requests, plans or workers are left")
			}
		})
	}
}

// A step of Compact holds tables that compactions of level 0 need, until level 0 is full and
// writers are stopped. When Compact is cancelled, compactions and writers go on.
func TestCompact_CancelledWhileLevel0IsFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var blocking atomic.Pointer[DB]
		ctx, cancel := context.WithCancel(t.Context())
		faults := faultfs.New(vfs.NewMem(), func(op vfs.Op, name string, _ int64) error {
			merging := op == vfs.OpCreate && strings.HasSuffix(name, ".sst") && strings.Contains(string(debug.Stack()), "mergeRange")
			// An automatic compaction, which takes a worker, may come first and is let through.
			if db := blocking.Load(); merging && db != nil && workersBusy(db) == 0 {
				blocking.Store(nil)
				<-ctx.Done()
				return context.Canceled
			}
			return nil
		})
		opts := Options{FS: faults, MemtableSize: 16 << 10, Durability: SyncManual, CompactionWorkers: 1, OnEvent: func(Event) {}}
		db := mustOpen(t, "db", &opts)
		put := func(n int) {
			for i := range n {
				mustPut(t, db, fmt.Sprintf("key%06d", i*7919%4000), strings.Repeat("v", 100))
			}
		}
		put(4000)
		mustFlush(t, db)
		waitIdle(t, db)
		mustPut(t, db, "key000000", "newer")
		mustPut(t, db, "key003999", "newer")
		blocking.Store(db)
		var wg sync.WaitGroup
		wg.Go(func() {
			err := db.Compact(ctx, Range{})
			for err == nil && blocking.Load() != nil { // automatic compactions have left nothing to do
				mustPut(t, db, "key000000", "newer")
				mustPut(t, db, "key003999", "newer")
				err = db.Compact(ctx, Range{})
			}
			if !errors.Is(err, context.Canceled) {
				t.Errorf("Compact = %v", err)
			}
		})
		synctest.Wait() // it is in the middle of a step
		var written atomic.Bool
		wg.Go(func() {
			put(12_000)
			written.Store(true)
		})
		time.Sleep(time.Hour) // the writer is stopped by now
		synctest.Wait()
		if runs := len(db.mems.View().Meta.Levels[0].Runs); runs < stopRuns {
			t.Errorf("level 0 has %d runs only", runs)
		}
		cancel()
		time.Sleep(time.Hour)
		synctest.Wait()
		if !written.Load() {
			t.Error("a writer still waits an hour after Compact was cancelled")
		}
		closeTest(t, db)
		wg.Wait()
	})
}

// workersBusy returns how many workers compact.
func workersBusy(db *DB) int {
	return db.scheduler.Busy()
}

// An automatic compaction fails again and again, and holds inputs that Compact needs. Compact
// makes it try again at once. It returns the error if that fails again, and goes on if not.
func TestCompact_WhileOthersFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := mustOpen(t, "db", &Options{FS: vfs.NewMem(), MemtableSize: 16 << 10, Durability: SyncManual, CompactionWorkers: -1})
		for i := range 2000 {
			mustPut(t, db, fmt.Sprintf("key%06d", i*7919%1000), strings.Repeat("v", 100))
		}
		mustFlush(t, db)
		s, failure := db.scheduler, errors.New("failure")
		plan := s.PickFor(1)
		if plan == nil {
			t.Fatal("there is nothing to compact")
		}
		for round, outcome := range []error{failure, failure, nil} {
			first := s.Begin()
			s.Compacted(first, failure)
			go func() {
				<-first.Retry
				s.Compacted(s.Begin(), outcome)
				if outcome == nil {
					s.Done(plan)
				}
			}()
			begin := time.Now()
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			if err := db.Compact(ctx, Range{}); !errors.Is(err, outcome) || time.Since(begin) > time.Second {
				t.Errorf("round %d: Compact = %v after %v, want %v at once", round, err, time.Since(begin), outcome)
			}
			cancel()
			s.RetryNow() // lets the goroutine end if Compact has not done so
			synctest.Wait()
		}
		closeTest(t, db)
	})
}
