package shale

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shaledb/shale/vfs"
	"github.com/shaledb/shale/vfs/faultfs"
)

// needRoom are calls that need room for another memtable.
var needRoom = map[string]func(db *DB) error{
	"Flush":      func(db *DB) error { return db.Flush(context.Background()) },
	"Compact":    func(db *DB) error { return db.Compact(context.Background(), Range{}) },
	"Checkpoint": func(db *DB) error { return db.Checkpoint("copy") },
	"Ingest": func(db *DB) error {
		return db.Ingest(context.Background(), func(yield func([]byte, []byte) bool) { yield([]byte("z"), nil) })
	},
}

// Flush, Compact, Checkpoint and Ingest try at once whether a shortage has ended, and then succeed.
func TestRecovery_ByOtherCalls(t *testing.T) {
	for name, call := range needRoom {
		for _, l := range lacks {
			t.Run(name+"/"+l.name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					faults := faultfs.New(vfs.NewMem(), nil)
					opts := Options{FS: faults, MemtableSize: l.memtable(), Durability: SyncManual, OnEvent: func(Event) {}}
					opts.testing.noMap = l.noMap
					db, err := Open("db", &opts)
					if err != nil {
						t.Fatal(err)
					}
					faults.Inject(func(op vfs.Op, name string, _ int64) error { return l.fails(op, name) })
					for i := 0; err == nil; i++ {
						err = db.Put(fmt.Appendf(nil, "k%06d", i*7919%997), make([]byte, 100)) // in no order, so that compactions have to merge
					}
					time.Sleep(time.Minute)
					synctest.Wait()
					if err := call(db); !errors.Is(err, l.cause) {
						t.Errorf("%s while something is lacking: %v", name, err)
					}
					faults.Inject(nil)
					if err := call(db); err != nil {
						t.Errorf("%s when nothing is lacking: %v", name, err)
					}
					mustPut(t, db, "k", "v")
					closeTest(t, db)
				})
			})
		}
	}
}

// fillLevel0 writes until level 0 is as deep as it may be, and fails to compact. The store
// takes writes after it, as long as the memtable has room.
func (w *countingWriter) fillLevel0(t *testing.T, db *DB) {
	t.Helper()
	for db.stallReason() != stallLevel0 || db.scheduler.CompactionFailure() == nil {
		if err := w.put(db); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
	}
}

// Calls that need room for another memtable try at once whether compactions still fail, also
// if no write has been refused yet.
func TestRecovery_CallsRetryCompactions(t *testing.T) {
	for name, call := range needRoom {
		synctest.Test(t, func(t *testing.T) {
			faults := faultfs.New(vfs.NewMem(), nil)
			db := mustOpen(t, "db", &Options{FS: faults, MemtableSize: 16 << 10, Durability: SyncManual, CompactionWorkers: 1, OnEvent: func(Event) {}})
			w := &countingWriter{acked: make(map[string]string)}
			faults.Inject(func(op vfs.Op, name string, _ int64) error { return errorIf(createsMerged(op, name), syscall.ENOSPC) })
			w.fillLevel0(t, db)
			if err := w.put(db); err != nil {
				t.Fatal(err)
			}
			if err := call(db); !errors.Is(err, syscall.ENOSPC) {
				t.Errorf("%s: %v while compactions fail", name, err)
			}
			faults.Inject(nil)
			begin := time.Now()
			if err := call(db); err != nil || time.Since(begin) > time.Second {
				t.Errorf("%s: %v after %v when compactions can succeed", name, err, time.Since(begin))
			}
			closeTest(t, db)
		})
	}
}

// A compaction that has begun before another attempt is asked for, and succeeds, may leave
// nothing to compact. Then nobody waits for a further one.
func TestRecovery_ByACompactionUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		faults := faultfs.New(vfs.NewMem(), nil)
		db := mustOpen(t, "db", &Options{FS: faults, MemtableSize: 16 << 10, Durability: SyncManual, CompactionWorkers: 1, OnEvent: func(Event) {}})
		w := &countingWriter{acked: make(map[string]string)}
		faults.Inject(func(op vfs.Op, name string, _ int64) error { return errorIf(createsMerged(op, name), syscall.ENOSPC) })
		w.fillLevel0(t, db)
		if err := w.put(db); err != nil {
			t.Fatal(err)
		}
		gate := make(chan bool)
		faults.Inject(func(op vfs.Op, name string, _ int64) error {
			if createsMerged(op, name) {
				<-gate
			}
			return nil
		})
		time.Sleep(time.Minute) // the store tries again, and stops at the gate
		done := make(chan error)
		go func() { done <- db.Flush(t.Context()) }()
		synctest.Wait()
		begin := time.Now()
		close(gate)
		if err := <-done; err != nil || time.Since(begin) > time.Second {
			t.Errorf("Flush: %v after %v", err, time.Since(begin))
		}
		closeTest(t, db)
	})
}
