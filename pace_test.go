package shale

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/vfs"
)

// TestPace_NoLongWaits writes without end to a store whose disk is slow, and in
// the middle becomes much slower: writers go as fast as it does, and none waits
// long. Time is the bubble's, so what counts is what the store waits for.
func TestPace_NoLongWaits(t *testing.T) {
	const bound = 100 * time.Millisecond
	for _, c := range []struct {
		name          string
		first, second time.Duration
	}{
		{"slow", 10 * time.Millisecond, 10 * time.Millisecond},
		{"slower", 10 * time.Millisecond, 40 * time.Millisecond},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var now atomic.Int64
				now.Store(int64(c.first))
				begun, ended := 0, 0
				db, err := Open("db", &Options{FS: slowTables(func() time.Duration { return time.Duration(now.Load()) }),
					MemtableSize: 256 << 10, TableSize: 64 << 10, Durability: SyncManual, OnEvent: func(e Event) {
						switch e.Kind {
						case EventStallBegin:
							begun++
						case EventStallEnd:
							ended++
						}
					}})
				if err != nil {
					t.Fatal(err)
				}
				begin := time.Now()
				longest := longestPut(t, db, 10_000)
				now.Store(int64(c.second))
				longest = max(longest, longestPut(t, db, 10_000))
				took := time.Since(begin)
				m := db.Metrics()
				closeTest(t, db)
				t.Logf("%v in all, longest wait %v, %v in %d waits, %d events", took, longest, m.StallTime, m.StalledWrites, begun)
				if longest > bound {
					t.Errorf("a write waited for %v", longest)
				}
				if m.StallTime < took/2 || m.StallTime > took {
					t.Errorf("%v of waiting in %v were told", m.StallTime, took)
				}
				if begun == 0 || begun != ended || uint64(begun) > m.StalledWrites/2 {
					t.Errorf("%d and %d events of %d waits", begun, ended, m.StalledWrites)
				}
			})
		})
	}
}

// TestPace_EveryWaitIsTold: what events say that writers waited is what the
// metrics say, whether they were slowed or stopped, also if a batch fills a
// memtable before their pace was ever looked at.
func TestPace_EveryWaitIsTold(t *testing.T) {
	for _, each := range []int{1, 100, 1500} { // entries of a batch; a memtable takes about 900
		synctest.Test(t, func(t *testing.T) {
			begun, ended, told := 0, 0, time.Duration(0)
			db, err := Open("db", &Options{FS: slowTables(func() time.Duration { return 10 * time.Millisecond }),
				MemtableSize: 256 << 10, TableSize: 64 << 10, Durability: SyncManual, OnEvent: func(e Event) {
					switch e.Kind {
					case EventStallBegin:
						begun++
					case EventStallEnd:
						ended++
						told += e.Duration
					}
				}})
			if err != nil {
				t.Fatal(err)
			}
			value := make([]byte, 200)
			for i := 0; i < 15_000; {
				var b Batch
				for range each {
					if err := b.Put(fmt.Appendf(nil, "key%08d", i), value); err != nil {
						t.Fatal(err)
					}
					i++
				}
				if err := db.Write(t.Context(), &b); err != nil {
					t.Fatal(err)
				}
			}
			m := db.Metrics()
			closeTest(t, db)
			if begun == 0 || begun != ended || told != m.StallTime || told == 0 {
				t.Errorf("batches of %d: %d and %d events of waits of %v in all; the metrics have %v", each, begun, ended, told, m.StallTime)
			}
		})
	}
}

// TestPace_NobodyWaits has a writer who is slower than the disk: memtables are
// flushed while he writes, and no event tells of a stall.
func TestPace_NobodyWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stalls, flushes := 0, 0
		db, err := Open("db", &Options{FS: slowTables(func() time.Duration { return 10 * time.Millisecond }),
			MemtableSize: 256 << 10, TableSize: 64 << 10, Durability: SyncManual, OnEvent: func(e Event) {
				switch e.Kind {
				case EventStallBegin, EventStallEnd:
					stalls++
				case EventFlush:
					flushes++
				}
			}})
		if err != nil {
			t.Fatal(err)
		}
		value := make([]byte, 200)
		for i := range 5000 {
			if err := db.Put(fmt.Appendf(nil, "key%08d", i), value); err != nil {
				t.Fatal(err)
			}
			time.Sleep(5 * time.Millisecond)
		}
		m := db.Metrics()
		closeTest(t, db)
		if m.StalledWrites != 0 || stalls != 0 || flushes < 3 {
			t.Errorf("%d events of %d waits, beside %d flushes", stalls, m.StalledWrites, flushes)
		}
	})
}

// TestPace_ManyRuns: with each run of level 0 beyond the bound writers get
// slower, without a step of more than a quarter, and never stop.
func TestPace_ManyRuns(t *testing.T) {
	if r := level0Rate(slowdownRuns - 1); r != 0 {
		t.Errorf("%.0f bytes a second before it is deep", r)
	}
	last := float64(64 << 20)
	for runs := slowdownRuns; runs <= stopRuns; runs++ {
		r := level0Rate(runs)
		if r > last || r < last*0.7 || r < 1<<20 {
			t.Errorf("%d runs: %.0f bytes a second after %.0f", runs, r, last)
		}
		last = r
	}
}

// TestPrepared_IsUsed counts what a rotation does when the next log is there
// already: it makes no file.
func TestPrepared_IsUsed(t *testing.T) {
	fsys := vfs.NewFault(vfs.NewMem(), nil)
	opts := tinyStore(fsys)
	opts.testing.minPrepared, opts.CompactionWorkers = 1, -1
	db := mustOpen(t, "db", &opts)
	for round := range 3 {
		for i := 0; db.view.Load().mem.Taken() <= opts.MemtableSize*3/4; i++ {
			mustPut(t, db, fmt.Sprintf("key%d-%d", round, i), "value")
		}
		awaitPrepared(t, db)
		db.flusher.mu.Lock() // no flush makes files meanwhile
		made := fsys.Count(vfs.OpCreate) + fsys.Count(vfs.OpRename) + fsys.Count(vfs.OpSyncDir)
		num := db.logs.CurrentNum()
		for i := 0; db.logs.CurrentNum() == num; i++ {
			mustPut(t, db, fmt.Sprintf("more%d-%d", round, i), "value")
		}
		if n := fsys.Count(vfs.OpCreate) + fsys.Count(vfs.OpRename) + fsys.Count(vfs.OpSyncDir); n != made {
			t.Errorf("the rotation made %d files, names or directory syncs", n-made)
		}
		db.flusher.mu.Unlock()
	}
	closeTest(t, db)
	db = mustOpen(t, "db", &opts)
	if value, err := db.Get([]byte("key2-0")); err != nil || string(value) != "value" {
		t.Errorf("Get after reopening: %q, %v", value, err)
	}
	closeTest(t, db)
}

// awaitPrepared waits until the next log is there.
func awaitPrepared(t *testing.T, db *DB) {
	t.Helper()
	testenv.Within(t, time.Minute, "the next log is prepared", func() {
		for have := false; !have; runtime.Gosched() {
			have, _ = db.logs.Spare()
		}
	})
}

// TestPrepared_FailureIsNone: a log that can't be prepared is made by the
// rotation.
func TestPrepared_FailureIsNone(t *testing.T) {
	var failed, told atomic.Int64
	fsys := vfs.NewFault(vfs.NewMem(), func(op vfs.Op, name string, n int64) error {
		if op == vfs.OpCreate && strings.HasSuffix(name, ".wal") && failed.Load() == 1 {
			failed.Add(1)
			return errors.New("no room")
		}
		return nil
	})
	opts := tinyStore(fsys)
	opts.testing.minPrepared = 1
	opts.OnEvent = func(e Event) {
		if e.Kind == EventBackgroundError && e.Reason == "prepare log" {
			told.Add(1)
		}
	}
	db := mustOpen(t, "db", &opts)
	failed.Store(1)
	for i := 0; db.view.Load().mem.Taken() <= opts.MemtableSize*3/4; i++ {
		mustPut(t, db, fmt.Sprintf("key%d", i), "value")
	}
	testenv.Within(t, time.Minute, "preparing fails", func() {
		for failed.Load() != 2 || told.Load() == 0 {
			runtime.Gosched()
		}
	})
	for i := range 1000 {
		mustPut(t, db, fmt.Sprintf("more%d", i), "value")
	}
	if err := db.Err(); err != nil {
		t.Error(err)
	}
	closeTest(t, db)
}
