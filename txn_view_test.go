package shale

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shaledb/shale/vfs"
)

// A transaction that can't write shows exactly the writes up to its number, while memtables are replaced all the time.
func TestView_Seq(t *testing.T) {
	opts := tinyStore(vfs.NewMem())
	opts.Durability = SyncManual
	db := openTest(t, &opts)
	key := []byte("k")
	mustPut(t, db, "k", "0")
	snap, err := db.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	first := snap.Seq()
	if err := snap.Close(); err != nil {
		t.Fatal(err)
	}
	var stop atomic.Bool
	var others sync.WaitGroup
	others.Go(func() {
		for i := 1; !stop.Load(); i++ {
			if err := db.Put(key, fmt.Append(nil, i)); err != nil { // as number first + i
				t.Error(err)
			}
		}
	})
	others.Go(func() {
		for !stop.Load() {
			if err := db.Flush(context.Background()); err != nil {
				t.Error(err)
			}
		}
	})
	begin := time.Now()
	for n := 0; (time.Since(begin) < 400*time.Millisecond || db.Metrics().Flushes < 10) && !t.Failed(); n++ {
		if err := db.View(func(tx *Txn) error {
			value, err := tx.Get(key)
			if want := fmt.Sprint(tx.Seq() - first); string(value) != want {
				t.Errorf("view %d: %s, number %s", n, value, want)
			}
			for e, err := range tx.Scan(Range{}) {
				if err != nil || string(e.Value) != string(value) {
					t.Errorf("view %d: Scan has %s, %v; Get has %s", n, e.Value, err, value)
				}
			}
			return err
		}); err != nil {
			t.Error(err)
		}
	}
	stop.Store(true)
	others.Wait()
}

// Metrics count the tries of transactions, what is open, and how long the oldest snapshot has been.
func TestMetrics_Transactions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := openTest(t, nil)
		update := func(fn func(tx *Txn) error) {
			t.Helper()
			if err := db.Update(t.Context(), fn); err != nil {
				t.Error(err)
			}
		}
		update(func(tx *Txn) error { return tx.Put([]byte("k"), nil) })
		update(func(tx *Txn) error { _, err := tx.Has([]byte("k")); return err }) // without a write there is nothing to commit
		_ = db.Update(t.Context(), func(tx *Txn) error { return errors.Join(tx.Put([]byte("k"), nil), errors.New("no")) })
		tries := 0
		update(func(tx *Txn) error {
			if _, err := tx.Get([]byte("k")); err != nil {
				return err
			}
			if tries++; tries <= 2 {
				mustPut(t, db, "k", "by another")
			}
			return tx.Put([]byte("k"), nil)
		})
		var ends []func()
		for n := range 3 {
			tx, err := db.Begin(n > 0)
			if err != nil {
				t.Fatal(err)
			}
			ends = append(ends, tx.Discard)
			time.Sleep(time.Second)
		}
		for i, end := range ends {
			m := db.Metrics()
			age := time.Duration(min(2, 3-i)) * time.Second // all snapshots have one number; the first transaction can't write and has none
			if m.TxnCommits != 2 || m.TxnConflicts != 2 || m.OpenSnapshots != int64(min(2, 3-i)) || m.OldestSnapshotAge != age || m.OpenTxns != int64(min(2, 3-i)) {
				t.Errorf("after %d ends: %d commits, %d conflicts, %d transactions, %d snapshots, the oldest for %v, want 2, 2, %d, %d, %v",
					i, m.TxnCommits, m.TxnConflicts, m.OpenTxns, m.OpenSnapshots, m.OldestSnapshotAge, min(2, 3-i), min(2, 3-i), age)
			}
			end()
		}
		if m := db.Metrics(); m.OpenTxns != 0 || m.OpenSnapshots != 0 || m.OldestSnapshotAge != 0 || !strings.Contains(m.String(), "2 committed, 2 conflicts") {
			t.Errorf("at the end: %+v\n%v", m, m)
		}
		if d := db.Metrics().Sub(db.Metrics()); d.TxnCommits != 0 {
			t.Errorf("Sub leaves %d commits", d.TxnCommits)
		}
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
}
