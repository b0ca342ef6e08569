package shale

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
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

// 64 goroutines add one to a counter: no addition is lost, and Update runs its function rarely more than once.
func TestUpdate_Counter(t *testing.T) {
	db := openTest(t, nil)
	var wg sync.WaitGroup
	var tries sync.Map
	for g := range 64 {
		wg.Go(func() {
			n := 0
			for range 20 {
				err := db.Update(context.Background(), func(tx *Txn) error {
					n++
					old, err := tx.Get([]byte("counter"))
					if err != nil && err != ErrNotFound {
						return err
					}
					var at uint64
					if err == nil {
						at = binary.BigEndian.Uint64(old)
					}
					return tx.Put([]byte("counter"), binary.BigEndian.AppendUint64(nil, at+1))
				})
				if err != nil {
					t.Error(err)
				}
			}
			tries.Store(g, n)
		})
	}
	wg.Wait()
	value, err := db.Get([]byte("counter"))
	if err != nil || binary.BigEndian.Uint64(value) != 64*20 {
		t.Errorf("the counter is %x, %v", value, err)
	}
	sum := 0
	tries.Range(func(_, n any) bool { sum += n.(int); return true })
	t.Logf("%.2f tries a commit", float64(sum)/(64*20))
}

// 16 clients move money between 100 accounts, while others write and flush. Every sum that anybody sees is the same,
// and each kind of sum: by Get, GetMany, and scans in both directions.
func TestUpdate_Bank(t *testing.T) {
	const accounts, each = 100, 1000
	seed := testenv.Seed(t)
	opts := small()
	opts.Durability = SyncManual
	db := openTest(t, opts)
	account := func(i int) []byte { return fmt.Appendf(nil, "account/%03d", i) }
	amount := func(v []byte) int { return int(binary.BigEndian.Uint64(v)) }
	encode := func(n int) []byte { return binary.BigEndian.AppendUint64(nil, uint64(n)) }
	for i := range accounts {
		if err := db.Put(account(i), encode(each)); err != nil {
			t.Fatal(err)
		}
	}
	var stop atomic.Bool
	var audits atomic.Int64
	var wg sync.WaitGroup
	sum := func(tx *Txn, way int) (total int, err error) {
		switch way {
		case 0:
			for i := range accounts {
				v, err := tx.Get(account(i))
				if err != nil {
					return 0, err
				}
				total += amount(v)
			}
		case 1:
			keys := make([][]byte, accounts)
			for i := range keys {
				keys[i] = account(i)
			}
			err = tx.GetMany(keys, func(_ int, value []byte, found bool) error {
				total += amount(value)
				return nil
			})
		default:
			rng := Prefix("account/")
			rng.Reverse = way == 3
			for e, err := range tx.Scan(rng) {
				if err != nil {
					return 0, err
				}
				total += amount(e.Value)
			}
		}
		return total, err
	}
	for client := range 16 {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(seed, uint64(client)))
			for i := 0; i < 150 && !t.Failed(); i++ {
				from, to, n := r.IntN(accounts), r.IntN(accounts), r.IntN(100)
				if from == to {
					continue
				}
				err := db.Update(context.Background(), func(tx *Txn) error {
					a, err := tx.Get(account(from))
					if err != nil {
						return err
					}
					b, err := tx.Get(account(to))
					if err != nil {
						return err
					}
					moved := min(n, amount(a))
					if err := tx.Put(account(from), encode(amount(a)-moved)); err != nil {
						return err
					}
					return tx.Put(account(to), encode(amount(b)+moved))
				})
				if err != nil {
					t.Errorf("Update: %v", err)
				}
			}
		})
	}
	var auditors sync.WaitGroup
	for way := range 4 {
		auditors.Go(func() {
			for !stop.Load() && !t.Failed() {
				audit := func(tx *Txn) error {
					total, err := sum(tx, way)
					if err != nil || total != accounts*each {
						t.Errorf("the accounts have %d, %v", total, err)
					}
					if tx.writable { // so that it is validated
						return tx.Put(fmt.Appendf(nil, "audit/%d", way), encode(total))
					}
					return nil
				}
				if err := db.View(audit); err != nil {
					t.Errorf("View: %v", err)
				}
				ctx, cancel := context.WithTimeout(context.Background(), 5*time.Millisecond) // with so many writers it may never commit
				if err := db.Update(ctx, audit); err != nil && !errors.Is(err, ErrConflict) && !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("Update: %v", err)
				}
				cancel()
				audits.Add(1)
			}
		})
	}
	auditors.Go(func() {
		for i := 0; !stop.Load(); i++ {
			_ = db.Put(fmt.Appendf(nil, "other/%d", i%1000), make([]byte, 500))
			if i%50 == 0 {
				_ = db.Flush(context.Background())
			}
		}
	})
	wg.Wait()
	stop.Store(true)
	auditors.Wait()
	if err := db.View(func(tx *Txn) error {
		if total, err := sum(tx, 2); err != nil || total != accounts*each {
			t.Errorf("in the end: %d, %v", total, err)
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
	t.Logf("%d audits", audits.Load())
}

// A transaction that reads for long, while others write at full speed, commits, if nothing that it has read was changed. The
// tail has forgotten its beginning by then.
func TestTxn_LongReader(t *testing.T) {
	opts := small()
	opts.testing.tailChunk = 1 << 10
	db := openTest(t, opts)
	for i := range 1000 {
		mustPut(t, db, fmt.Sprintf("k%04d", i), "v")
	}
	for _, spoiled := range []bool{false, true} {
		tx := mustBegin(t, db)
		for e, err := range tx.Scan(Prefix("k")) {
			if err != nil || string(e.Value) == "" {
				t.Fatal(err)
			}
			mustPut(t, db, fmt.Sprintf("other%04d", len(e.Key)), strings.Repeat("x", 100))
		}
		if _, err := tx.Get([]byte("one")); err != ErrNotFound {
			t.Fatal(err)
		}
		if spoiled {
			mustPut(t, db, "k0500x", "v")
		}
		for i := range 500 {
			mustPut(t, db, fmt.Sprintf("other%04d", i), strings.Repeat("y", 100))
		}
		if err := db.Compact(context.Background(), Range{}); err != nil {
			t.Fatal(err)
		}
		if err := tx.Put([]byte("result"), []byte("v")); err != nil {
			t.Fatal(err)
		}
		if err := tx.Commit(context.Background()); errors.Is(err, ErrConflict) != spoiled || !spoiled && err != nil {
			t.Errorf("Commit = %v; a gap of the scan was filled: %v", err, spoiled)
		} else if spoiled && !strings.Contains(err.Error(), "k0500x") {
			t.Errorf("%v does not name the key", err)
		}
	}
}

// A transaction commits also while others write batches that are larger than the tail, one after the other.
func TestUpdate_BesideLargeBatches(t *testing.T) {
	opts := &Options{Durability: SyncManual}
	opts.testing.tailChunk = 1
	db := openTest(t, opts)
	var stop atomic.Bool
	var wg sync.WaitGroup
	defer wg.Wait()
	defer stop.Store(true)
	for g := range 3 {
		var b Batch // of more than a group has, so that the transaction is in none of them
		for i := range 5000 {
			if err := b.Put(fmt.Appendf(nil, "%d/%d", g, i), make([]byte, 250)); err != nil {
				t.Fatal(err)
			}
		}
		wg.Go(func() {
			for !stop.Load() {
				if err := db.Write(context.Background(), &b); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	testenv.WaitFor(t, "all to write", func() bool { return db.commits.Waiting() > 1 })
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for range 5 {
		if err := db.Update(ctx, func(tx *Txn) error {
			_, err := tx.Has([]byte("k"))
			return errors.Join(err, tx.Put([]byte("k"), nil))
		}); err != nil {
			t.Fatal(err)
		}
	}
}

// The error of a conflict names the same key for ever, although the memory of the transaction is used again.
func TestTxn_ConflictNamesKey(t *testing.T) {
	opts := small()
	opts.testing.tailChunk = 1 // so that the tables are asked
	db := openTest(t, opts)
	look := func(tx *Txn, key string) {
		t.Helper()
		if has, err := tx.Has([]byte(key)); has || err != nil {
			t.Fatalf("Has(%s) = %v, %v", key, has, err)
		}
	}
	tx := mustBegin(t, db)
	look(tx, "first")
	mustPut(t, db, "first", "v")
	for range 20 {
		mustPut(t, db, "other", "v")
	}
	if err := tx.Put([]byte("k"), nil); err != nil {
		t.Fatal(err)
	}
	err := tx.Commit(t.Context())
	for range 10 {
		tx := mustBegin(t, db)
		look(tx, "again")
		tx.Discard()
	}
	if !errors.Is(err, ErrConflict) || !strings.Contains(err.Error(), `"first"`) {
		t.Errorf("Commit = %v", err)
	}
}

// An Update within an Update is independent. On the same key the outer one loses each time, and ends: neither
// waits for the other for long.
func TestUpdate_Nested(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := openTest(t, &Options{FS: vfs.NewMem()})
		begin := time.Now()
		add := func(tx *Txn) error {
			_, err := tx.Has([]byte("k"))
			return errors.Join(err, tx.Put([]byte("k"), nil))
		}
		err := db.Update(t.Context(), func(tx *Txn) error {
			return errors.Join(add(tx), db.Update(t.Context(), add))
		})
		if !errors.Is(err, ErrConflict) {
			t.Errorf("Update = %v", err)
		}
		if err := db.Update(t.Context(), func(tx *Txn) error {
			return errors.Join(tx.Put([]byte("mine"), nil), db.Update(t.Context(), add))
		}); err != nil {
			t.Errorf("on other keys: %v", err)
		}
		if took := time.Since(begin); took > 15*time.Second {
			t.Errorf("it took %v", took)
		}
		closeTest(t, db)
	})
}

// No Update loses again and again to those that have just won: neither where a sync of each write takes longer than the
// transactions, nor where the functions take long.
func TestUpdate_TakesTurns(t *testing.T) {
	for _, tc := range []struct {
		name       string
		durability Durability
		first      bool          // the shared key is the first that a transaction reads
		fn         time.Duration // that it takes
	}{
		{"slow syncs, the shared key is read first", SyncEach, true, 0},
		{"slow syncs, the shared key is read second", SyncEach, false, 0},
		{"slow functions, the shared key is read first", SyncManual, true, time.Millisecond},
		{"slow functions, the shared key is read second", SyncManual, false, time.Millisecond},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { testTurns(t, tc.durability, tc.first, tc.fn) })
		})
	}
}

func testTurns(t *testing.T, d Durability, first bool, pause time.Duration) {
	fsys := faultfs.New(vfs.NewMem(), func(op vfs.Op, name string, _ int64) error {
		if op == vfs.OpSync && strings.HasSuffix(name, ".wal") {
			time.Sleep(time.Millisecond)
		}
		return nil
	})
	db, err := Open("db", &Options{FS: fsys, Durability: d})
	if err != nil {
		t.Fatal(err)
	}
	const clients, each = 8, 50
	begin := time.Now()
	var mu sync.Mutex
	most, all := 0, 0 // tries
	var wg sync.WaitGroup
	for i := range clients {
		wg.Go(func() {
			for range each {
				tries := 0
				if err := db.Update(context.Background(), func(tx *Txn) error {
					tries++
					if !first {
						if _, err := tx.Has(fmt.Append(nil, i)); err != nil {
							return err
						}
					}
					value, err := tx.Get([]byte("shared"))
					if err != nil && err != ErrNotFound {
						return err
					}
					time.Sleep(pause)
					return tx.Put([]byte("shared"), append(value, '+'))
				}); err != nil {
					t.Error(err)
				}
				mu.Lock()
				most, all = max(most, tries), all+tries
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	took := time.Since(begin)
	t.Logf("%d tries at most, %v", most, took)
	if m := db.Metrics(); m.TxnCommits != clients*each || m.TxnCommits+m.TxnConflicts != uint64(all) {
		t.Errorf("%d commits and %d conflicts, of %d tries", m.TxnCommits, m.TxnConflicts, all)
	}
	if most > 5 {
		t.Errorf("an Update took %d tries", most)
	}
	if took > 2*clients*each*time.Millisecond {
		t.Errorf("%d commits of 1 ms each took %v", clients*each, took)
	}
	wantGet(t, db, "shared", strings.Repeat("+", clients*each), true)
	closeTest(t, db)
}

// A transaction allocates its Txn, and hardly anything else: the memory for what it remembers is used again.
func TestUpdate_Allocations(t *testing.T) {
	testenv.SkipRace(t) // sync.Pool drops things
	db := openTest(t, &Options{Durability: SyncManual})
	k1, k2 := []byte("k"), []byte("l")
	mustPut(t, db, "k", "v")
	mustPut(t, db, "l", "v")
	buf := make([]byte, 0, 64)
	read := func(tx *Txn) error {
		_, err := tx.AppendValue(buf, k1)
		return err
	}
	change := func(tx *Txn) error {
		for _, k := range [][]byte{k1, k2} {
			v, err := tx.AppendValue(buf, k)
			if err != nil {
				return err
			}
			if err := tx.Put(k, v); err != nil {
				return err
			}
		}
		return nil
	}
	for _, tc := range []struct {
		name string
		most float64
		call func() error
	}{
		{"View", 1, func() error { return db.View(read) }},
		{"Update", 3, func() error { return db.Update(context.Background(), change) }},
	} {
		if n := allocationsOf(func() {
			if err := tc.call(); err != nil {
				t.Error(err)
			}
		}); n > tc.most {
			t.Errorf("%s: %v allocations, want %v at most", tc.name, n, tc.most)
		}
	}
}

func BenchmarkView(b *testing.B) {
	db := openTest(b, nil)
	mustPut(b, db, "k", "v")
	b.ReportAllocs()
	key := []byte("k")
	for b.Loop() {
		_ = db.View(func(tx *Txn) error { _, err := tx.Has(key); return err })
	}
}

func BenchmarkUpdate(b *testing.B) {
	opts := &Options{Durability: SyncManual}
	db := openTest(b, opts)
	mustPut(b, db, "k", "v")
	b.ReportAllocs()
	k1, k2, v := []byte("k"), []byte("l"), []byte("v")
	for b.Loop() {
		_ = db.Update(context.Background(), func(tx *Txn) error {
			_, _ = tx.Has(k1)
			_, _ = tx.Has(k2)
			_ = tx.Put(k1, v)
			return tx.Put(k2, v)
		})
	}
}
