package shale

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
)

// A step is what one of two transactions does.
type txnStep struct {
	tx int // 0 or 1
	do func(tx *Txn) (string, error)
}

func get(key string) func(*Txn) (string, error) {
	return func(tx *Txn) (string, error) {
		v, err := tx.Get([]byte(key))
		if err == ErrNotFound {
			return "-", nil
		}
		return string(v), err
	}
}

func put(key, value string) func(*Txn) (string, error) {
	return func(tx *Txn) (string, error) { return "", tx.Put([]byte(key), []byte(value)) }
}

func remove(key string) func(*Txn) (string, error) {
	return func(tx *Txn) (string, error) { return "", tx.Delete([]byte(key)) }
}

func count(lower, upper string) func(*Txn) (string, error) {
	return func(tx *Txn) (string, error) {
		n := 0
		for _, err := range tx.Scan(Range{Lower: []byte(lower), Upper: []byte(upper)}) {
			if err != nil {
				return "", err
			}
			n++
		}
		return fmt.Sprint(n), nil
	}
}

// end commits. It gives "conflict" for ErrConflict.
func end(tx *Txn) (string, error) {
	err := tx.Commit(context.Background())
	if errors.Is(err, ErrConflict) {
		return "conflict", nil
	}
	return "", err
}

func giveUp(tx *Txn) (string, error) { tx.Discard(); return "", nil }

// The anomalies of A. Adya, Weak Consistency (1999), and of H. Berenson and others, A Critique of ANSI SQL Isolation
// Levels (1995), do not happen. The store has x = 0 and y = 0 at first.
func TestTxn_Anomalies(t *testing.T) {
	for name, c := range map[string]struct {
		steps []txnStep
		want  string // what the reads have returned, and the outcomes
		then  string // x and y in the end
	}{
		"G0, writes that mix": {
			[]txnStep{{0, put("x", "1")}, {1, put("x", "2")}, {1, put("y", "2")}, {0, put("y", "1")}, {0, end}, {1, end}},
			"", "2 2",
		},
		"G1a, a read of what is discarded": {
			[]txnStep{{0, put("x", "1")}, {1, get("x")}, {0, giveUp}, {1, get("x")}, {1, put("y", "2")}, {1, end}},
			"0 0", "0 2",
		},
		"G1b, a read of what is overwritten": {
			[]txnStep{{0, put("x", "1")}, {1, get("x")}, {0, put("x", "2")}, {0, end}, {1, get("x")}, {1, end}},
			"0 0", "2 0",
		},
		"G1c, each reads of the other": {
			[]txnStep{{0, put("x", "1")}, {1, put("y", "2")}, {0, get("y")}, {1, get("x")}, {0, end}, {1, end}},
			"0 0 conflict", "1 0",
		},
		"a lost update": {
			[]txnStep{{0, get("x")}, {1, get("x")}, {0, put("x", "1")}, {1, put("x", "2")}, {1, end}, {0, end}},
			"0 0 conflict", "2 0",
		},
		"a lost update of a key that is absent": {
			[]txnStep{{0, get("z")}, {1, get("z")}, {0, put("z", "1")}, {1, put("z", "2")}, {1, end}, {0, end}},
			"- - conflict", "0 0",
		},
		"a lost deletion": {
			[]txnStep{{0, get("x")}, {1, remove("x")}, {1, end}, {0, put("y", "1")}, {0, end}},
			"0 conflict", "- 0",
		},
		"read skew": {
			[]txnStep{{0, get("x")}, {1, put("x", "1")}, {1, put("y", "1")}, {1, end}, {0, get("y")}, {0, end}},
			"0 0", "1 1",
		},
		"G2 on items, write skew": {
			[]txnStep{{0, get("x")}, {0, get("y")}, {1, get("x")}, {1, get("y")}, {0, put("x", "1")}, {1, put("y", "2")}, {0, end}, {1, end}},
			"0 0 0 0 conflict", "1 0",
		},
		"G2 on ranges": {
			[]txnStep{{0, count("x", "z")}, {1, count("x", "z")}, {0, put("x1", "1")}, {1, put("x2", "2")}, {0, end}, {1, end}},
			"2 2 conflict", "0 0",
		},
		"G2 on empty scans": {
			[]txnStep{{0, count("a", "b")}, {1, count("a", "b")}, {0, put("a1", "1")}, {1, put("a2", "2")}, {0, end}, {1, end}},
			"0 0 conflict", "0 0",
		},
		"a phantom in the gap of a scan": {
			[]txnStep{{0, count("x", "z")}, {1, put("x5", "1")}, {1, end}, {0, put("w", "1")}, {0, end}},
			"2 conflict", "0 0",
		},
		"beside a scan, and no conflict": {
			[]txnStep{{0, count("x", "z")}, {1, put("z", "1")}, {1, put("w", "1")}, {1, end}, {0, put("w", "1")}, {0, end}},
			"2", "0 0",
		},
		"blind writes, and no conflict": {
			[]txnStep{{0, put("x", "1")}, {1, get("x")}, {1, put("x", "2")}, {1, end}, {0, end}},
			"0", "1 0",
		},
		"own writes are not read": {
			[]txnStep{{0, put("x", "1")}, {0, get("x")}, {1, put("x", "2")}, {1, end}, {0, end}},
			"1", "1 0",
		},
	} {
		t.Run(name, func(t *testing.T) {
			db := openTest(t, nil)
			mustPut(t, db, "x", "0")
			mustPut(t, db, "y", "0")
			txs := []*Txn{mustBegin(t, db), mustBegin(t, db)}
			var got []string
			for i, s := range c.steps {
				out, err := s.do(txs[s.tx])
				if err != nil {
					t.Fatalf("step %d: %v", i, err)
				}
				if out != "" {
					got = append(got, out)
				}
			}
			if g := strings.Join(got, " "); g != c.want {
				t.Errorf("%s, want %s", g, c.want)
			}
			after := mustBegin(t, db)
			defer after.Discard()
			x, _ := get("x")(after)
			y, _ := get("y")(after)
			if x+" "+y != c.then {
				t.Errorf("in the end %s %s, want %s", x, y, c.then)
			}
		})
	}
}

func mustBegin(t *testing.T, db *DB) *Txn {
	t.Helper()
	tx, err := db.Begin(true)
	if err != nil {
		t.Fatal(err)
	}
	return tx
}

// Bad use gives a clear error, and nothing is lost.
func TestTxn_BadUse(t *testing.T) {
	db := openTest(t, nil)
	mustPut(t, db, "k", "v")
	ctx := context.Background()

	t.Run("after the end", func(t *testing.T) {
		tx := mustBegin(t, db)
		it := tx.NewIterator(Range{})
		defer it.Close()
		if !it.First() {
			t.Fatal(it.Err())
		}
		if err := tx.Commit(ctx); err != nil {
			t.Fatal(err)
		}
		tx.Discard()
		for name, err := range map[string]error{
			"Put": tx.Put([]byte("k"), nil), "Delete": tx.Delete([]byte("k")), "Commit": tx.Commit(ctx),
			"Get": second(tx.Get([]byte("k"))), "Has": second(tx.Has([]byte("k"))),
			"GetMany":     tx.GetMany([][]byte{[]byte("k")}, func(int, []byte, bool) error { return nil }),
			"NewIterator": tx.NewIterator(Range{}).Err(), "ViewValue": tx.ViewValue([]byte("k"), nil),
			"Untracked": second(tx.Untracked().Get([]byte("k"))), "Sub": tx.Sub("a").Put(nil, nil),
		} {
			if err != ErrTxnDone {
				t.Errorf("%s = %v", name, err)
			}
		}
		if it.Next() || it.Err() != ErrTxnDone {
			t.Errorf("an iterator moves: %v", it.Err())
		}
		for _, err := range tx.Scan(Range{}) {
			if err != ErrTxnDone {
				t.Errorf("Scan: %v", err)
			}
		}
	})
	t.Run("writes in View", func(t *testing.T) {
		err := db.View(func(tx *Txn) error {
			tx.SetDurability(SyncManual)
			if err := tx.Delete([]byte("k")); !errors.Is(err, ErrReadOnly) || !strings.Contains(err.Error(), "View or Begin(false)") {
				t.Errorf("Delete = %v", err)
			}
			return tx.Put([]byte("k"), []byte("w"))
		})
		if !errors.Is(err, ErrReadOnly) {
			t.Errorf("View = %v", err)
		}
	})
	t.Run("two goroutines", func(t *testing.T) {
		tx := mustBegin(t, db)
		tx.busy = true
		if _, err := tx.Get([]byte("k")); err != errTxnShared {
			t.Errorf("Get = %v", err)
		}
		tx.busy = false
		tx.Discard()
	})
	t.Run("a panic and Goexit in fn", func(t *testing.T) {
		func() {
			defer func() {
				if r := recover(); r != "mine" {
					t.Errorf("recovered %v", r)
				}
			}()
			_ = db.Update(ctx, func(tx *Txn) error { _ = tx.Put([]byte("k"), []byte("w")); panic("mine") })
		}()
		var wg sync.WaitGroup
		wg.Go(func() {
			_ = db.Update(ctx, func(tx *Txn) error { _ = tx.Put([]byte("k"), []byte("w")); runtime.Goexit(); return nil })
		})
		wg.Wait()
		wantGet(t, db, "k", "v", true)
		if m := db.Metrics(); m.OpenTxns != 0 || m.OpenSnapshots != 0 || m.OldestSnapshotAge != 0 {
			t.Errorf("%d transactions and %d snapshots are open", m.OpenTxns, m.OpenSnapshots)
		}
	})
	t.Run("an error of fn", func(t *testing.T) {
		mine := errors.New("mine")
		if err := db.Update(ctx, func(tx *Txn) error { _ = tx.Put([]byte("k"), []byte("w")); return mine }); err != mine {
			t.Errorf("Update = %v", err)
		}
		wantGet(t, db, "k", "v", true)
	})
	t.Run("too large", func(t *testing.T) {
		err := db.Update(ctx, func(tx *Txn) error {
			if err := tx.Put(make([]byte, MaxKeySize+1), nil); !errors.Is(err, ErrKeyTooLarge) {
				t.Errorf("Put = %v", err)
			}
			if err := tx.Sub("a").Put(make([]byte, MaxKeySize), nil); !errors.Is(err, ErrKeyTooLarge) {
				t.Errorf("Put in a Sub = %v", err)
			}
			return tx.Put([]byte("l"), []byte("v"))
		})
		if err != nil {
			t.Errorf("Update = %v", err)
		}
		wantGet(t, db, "l", "v", true)
	})
	t.Run("an Update in an Update of the same key", func(t *testing.T) {
		tries := 0
		err := db.Update(ctx, func(tx *Txn) error {
			tries++
			if _, err := tx.Get([]byte("k")); err != nil {
				return err
			}
			if err := db.Update(ctx, func(tx *Txn) error {
				_, _ = tx.Get([]byte("k"))
				return tx.Put([]byte("k"), []byte("inner"))
			}); err != nil {
				t.Errorf("the inner one: %v", err)
			}
			return tx.Put([]byte("k"), []byte("outer"))
		})
		if !errors.Is(err, ErrConflict) || tries != maxTries+1 {
			t.Errorf("Update = %v after %d tries", err, tries)
		}
		wantGet(t, db, "k", "inner", true)
	})
	t.Run("a context that is done", func(t *testing.T) {
		done, cancel := context.WithCancel(ctx)
		ran := false
		if err := db.Update(done, func(tx *Txn) error { ran = true; cancel(); return tx.Put([]byte("k"), []byte("w")) }); !errors.Is(err, context.Canceled) || !ran {
			t.Errorf("Update = %v, ran %v", err, ran)
		}
		if err := db.Update(done, func(tx *Txn) error { t.Error("it runs"); return nil }); !errors.Is(err, context.Canceled) {
			t.Errorf("Update = %v", err)
		}
		wantGet(t, db, "k", "inner", true)
	})
	t.Run("a part of a snapshot", func(t *testing.T) {
		s, err := db.Snapshot()
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		if err := s.Sub("").Put([]byte("k"), nil); !errors.Is(err, ErrReadOnly) {
			t.Errorf("Put = %v", err)
		}
		if err := s.Sub("").Delete([]byte("k")); !errors.Is(err, ErrReadOnly) {
			t.Errorf("Delete = %v", err)
		}
		tx := mustBegin(t, db)
		defer tx.Discard()
		if s.Sub("").InTxn() || db.Sub("").InTxn() || !tx.Sub("").InTxn() || !tx.Sub("").Sub("").InTxn() {
			t.Error("InTxn is wrong")
		}
	})
	t.Run("a closed store", func(t *testing.T) {
		tx := mustBegin(t, db)
		if err := tx.Put([]byte("k"), []byte("w")); err != nil {
			t.Fatal(err)
		}
		closeTest(t, db)
		if _, err := tx.Get([]byte("l")); err != ErrClosed {
			t.Errorf("Get = %v", err)
		}
		if err := tx.Commit(ctx); err != ErrClosed {
			t.Errorf("Commit = %v", err)
		}
		if _, err := db.Begin(true); err != ErrClosed {
			t.Errorf("Begin = %v", err)
		}
		if err := db.View(func(*Txn) error { return nil }); err != ErrClosed {
			t.Errorf("View = %v", err)
		}
	})
}

func second[T any](_ T, err error) error { return err }
