package shale

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/vfs"
	"github.com/shaledb/shale/wal"
)

// newestIn returns the last sequence number of the batches in a stretch of a log.
func newestIn(t *testing.T, db *DB, num uint64, from, to int64) (last uint64) {
	t.Helper()
	_, err := wal.ReadRange(db.fs, db.dir, base.FileNum(num), db.storeID, from, to, func(payload []byte, _ int64) error {
		seq, b, err := DecodeBatch(payload)
		if err != nil {
			return err
		}
		last = seq + uint64(b.Len()) - 1
		return nil
	})
	if err != nil {
		t.Fatalf("the log up to offset %d: %v", to, err)
	}
	return last
}

// The gate is asked when a group is in the log, and durable if that is wanted, and before readers see
// it. It may use the store as it says.
func TestCommitGate_Order(t *testing.T) {
	for _, durability := range []Durability{SyncEach, SyncPeriodic, SyncManual} {
		o := small()
		o.Durability = durability
		var db *DB
		asked, missing := 0, 0
		o.Shipping.Gate = func(p LogPosition) error {
			asked++
			if missing = asked; newestIn(t, db, p.Log, 0, p.Written) != p.LastSeq || p.Written != ShippingOf(db).Position().Written {
				t.Errorf("durability %d: asked at %+v, the log reaches to %+v", durability, p, ShippingOf(db).Position())
			}
			if durability == SyncEach && p.Synced != p.Written {
				t.Errorf("asked at %+v, before the group is durable", p)
			}
			key := fmt.Sprintf("k%d", asked)
			if found, err := db.Has([]byte(key)); found || err != nil {
				t.Errorf("%s is visible before the gate lets it pass: %v", key, err)
			}
			h, err := ShippingOf(db).Hold()
			if err != nil {
				return err
			}
			h.Release()
			ShippingOf(db).HoldLogs(0)
			return db.Sync()
		}
		db = openTest(t, o)
		for i := 1; i <= 3; i++ {
			mustPut(t, db, fmt.Sprintf("k%d", i), "v")
			wantGet(t, db, fmt.Sprintf("k%d", i), "v", true)
			if missing != i {
				t.Fatalf("durability %d: write %d was not asked about", durability, i)
			}
		}
		if found, err := db.PutIfAbsent([]byte("k3"), nil); found || err != nil || asked != 3 {
			t.Errorf("a write that is dropped: %v, %v, and the gate was asked %d times", found, err, asked)
		}
	}
}

// The gate is asked about one group after the other. While it waits, nothing is acknowledged, and
// Close waits for it.
func TestCommitGate_Waits(t *testing.T) {
	let, inside := make(chan struct{}), make(chan struct{}, 100)
	var last, under atomic.Uint64
	o := small()
	o.FS, o.Durability = vfs.NewMem(), SyncManual
	o.Shipping.Gate = func(p LogPosition) error {
		if under.Add(1) > 1 || p.LastSeq <= last.Swap(p.LastSeq) {
			t.Errorf("asked at %+v amid another call or after it", p)
		}
		inside <- struct{}{}
		<-let
		under.Add(^uint64(0))
		return nil
	}
	db := mustOpen(t, "db", o)
	var acknowledged atomic.Int64
	var writers sync.WaitGroup
	for i := range 20 {
		writers.Go(func() {
			if err := db.Put(fmt.Appendf(nil, "k%d", i), nil); err != nil && !errors.Is(err, ErrClosed) {
				t.Error(err)
			}
			acknowledged.Add(1)
		})
	}
	<-inside
	closed := make(chan error)
	go func() { closed <- db.Close() }()
	for db.commits.Waiting() == 0 || !db.life.Closing() {
		time.Sleep(time.Millisecond)
	}
	select {
	case err := <-closed:
		t.Fatalf("Close returned amid a gate: %v", err)
	default:
	}
	if n := acknowledged.Load(); n > 0 {
		// Those that came after Close began were refused, and the others wait.
		t.Logf("%d writes were refused", n)
	}
	if v := db.commits.Visible(); v != 0 {
		t.Errorf("writes up to %d are visible before the gate lets them pass", v)
	}
	close(let)
	if err := <-closed; err != nil {
		t.Fatal(err)
	}
	writers.Wait()
}

// An ingestion is acknowledged once the gate lets it pass. Its keys are durable and visible before
// that, so they stay if it does not.
func TestCommitGate_Ingest(t *testing.T) {
	refusal := errors.New("not today")
	var answer error
	asked := LogPosition{}
	o := small()
	o.FS = vfs.NewMem()
	o.Shipping.Gate = func(p LogPosition) error { asked = p; return answer }
	db := mustOpen(t, "db", o)
	mustIngest(t, db, sortedKeys(0, 100, "1"))
	if asked.LastSeq != 1 || asked.Written != ShippingOf(db).Position().Written {
		t.Errorf("asked at %+v", asked)
	}
	answer = refusal
	if err := db.Ingest(context.Background(), sortedKeys(50, 150, "2")); !errors.Is(err, refusal) || !errors.Is(err, ErrReadOnly) {
		t.Fatalf("an ingestion that the gate refuses: %v", err)
	}
	for range 2 {
		wantGet(t, db, "k000000", "1", true)
		wantGet(t, db, "k000149", "2", true)
		_ = db.Close() // it reports the refusal, the first time
		answer = nil
		db = mustOpen(t, "db", o)
	}
	closeTest(t, db)
}

// What LogPosition says holds at any time: all writes up to LastSeq are in the log up to Written.
func TestLogPosition_BesideWriters(t *testing.T) {
	o := small()
	o.FS, o.Durability = vfs.NewMem(), SyncPeriodic
	o.SyncEvery, o.MemtableSize = time.Millisecond, 64<<20
	db := mustOpen(t, "db", o)
	defer db.Close()
	done := make(chan struct{})
	var writers sync.WaitGroup
	for w := range 3 {
		writers.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-done:
					return
				default:
					if err := db.Put(fmt.Appendf(nil, "%d-%d", w, i), make([]byte, 100)); err != nil {
						t.Error(err)
						return
					}
				}
			}
		})
	}
	before := LogPosition{}
	for range 200 {
		p := ShippingOf(db).Position()
		if p.Synced > p.Written || p.Synced < before.Synced || p.Written < before.Written || p.LastSeq < before.LastSeq {
			t.Fatalf("%+v after %+v", p, before)
		}
		if last := newestIn(t, db, p.Log, max(before.Synced, 0), p.Written); last < p.LastSeq && last > 0 {
			t.Fatalf("%+v, but the log has writes up to %d there", p, last)
		}
		before = p
	}
	close(done)
	writers.Wait()
}
