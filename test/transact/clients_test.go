package transact

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/test/harness"
	"github.com/shaledb/shale/vfs"
)

// This file has clients that contend for few keys. Each test opens one store after the other, with other options, and goes
// on for SHALE_LONG.

// rounds runs fn on new stores, at least once.
func rounds(t *testing.T, fn func(t *testing.T, db *shale.DB, r *rand.Rand)) {
	testenv.CheckLeaks(t)
	seed, begin, long := testenv.Seed(t), time.Now(), testenv.Long(t)
	n := uint64(0)
	for ; n == 0 || time.Since(begin) < long; n++ {
		r := rand.New(rand.NewPCG(seed, n))
		opts := harness.Draw(r, vfs.NewMem())
		opts.Shipping.Gate = nil // which would refuse writes
		db, err := shale.Open("db", &opts)
		if err != nil {
			t.Fatalf("Open: %v", err)
		}
		fn(t, db, r)
		if err := harness.Close(db); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Fatalf("round %d, options: %s", n, harness.OptionsText(&opts))
		}
	}
	t.Logf("%d stores in %v", n, time.Since(begin).Round(time.Millisecond))
}

func number(r shale.Reader, key []byte) (int64, error) {
	value, err := r.Get(key)
	if errors.Is(err, shale.ErrNotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	return int64(binary.BigEndian.Uint64(value)), nil
}

func put(w shale.Writer, key []byte, n int64) error {
	return w.Put(key, binary.BigEndian.AppendUint64(nil, uint64(n)))
}

// 64 goroutines add to one counter. Its value is the number of additions.
func TestCounter(t *testing.T) {
	var tries, commits atomic.Int64
	rounds(t, func(t *testing.T, db *shale.DB, r *rand.Rand) {
		const clients, each = 64, 25
		key := []byte("counter")
		var wg sync.WaitGroup
		for range clients {
			wg.Go(func() {
				for range each {
					err := db.Update(context.Background(), func(tx *shale.Txn) error {
						tries.Add(1)
						n, err := number(tx, key)
						return errors.Join(err, put(tx, key, n+1))
					})
					if err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		commits.Add(clients * each)
		if n, err := number(db, key); n != clients*each || err != nil {
			t.Errorf("the counter is %d, %v; want %d", n, err, clients*each)
		}
	})
	t.Logf("%.2f tries a commit", float64(tries.Load())/float64(commits.Load()))
}

// 16 clients move money between 100 accounts. Others add them up meanwhile, in transactions that can write and in those
// that can't, and from snapshots: each sum is the same.
func TestBank(t *testing.T) {
	rounds(t, func(t *testing.T, db *shale.DB, r *rand.Rand) {
		const accounts, each, clients = 100, 1000, 16
		transfers := 60
		account := func(i int) []byte { return fmt.Appendf(nil, "account/%02d", i) }
		for i := range accounts {
			if err := put(db, account(i), each); err != nil {
				t.Fatal(err)
			}
		}
		seed := r.Uint64()
		var moving, auditing sync.WaitGroup
		var done atomic.Bool
		for c := range clients {
			moving.Go(func() {
				r := rand.New(rand.NewPCG(seed, uint64(c)))
				for range transfers {
					from, to, amount := account(r.IntN(accounts)), account(r.IntN(accounts)), r.Int64N(100)
					err := db.Update(context.Background(), func(tx *shale.Txn) error {
						a, err := number(tx, from)
						if err == nil {
							err = put(tx, from, a-amount)
						}
						b, errB := number(tx, to) // perhaps what was just written
						return errors.Join(err, errB, put(tx, to, b+amount))
					})
					if err != nil {
						t.Errorf("a transfer: %v", err)
					}
				}
			})
		}
		audit := func(what string, r shale.Reader, reverse bool) {
			rng := shale.Prefix("account/")
			rng.Reverse = reverse
			n, sum := 0, int64(0)
			for e, err := range r.Scan(rng) {
				if err != nil {
					t.Errorf("%s: %v", what, err)
					return
				}
				n, sum = n+1, sum+int64(binary.BigEndian.Uint64(e.Value))
			}
			if n != accounts || sum != accounts*each {
				t.Errorf("%s: %d accounts have %d", what, n, sum)
			}
		}
		auditing.Go(func() {
			for n := 0; !done.Load(); n++ {
				if err := db.View(func(tx *shale.Txn) error { audit("View", tx, n%2 == 0); return nil }); err != nil {
					t.Error(err)
				}
				snap, err := db.Snapshot()
				if err != nil {
					t.Error(err)
					return
				}
				audit("a snapshot", snap, n%2 == 0)
				_ = snap.Close() // it is open
			}
		})
		auditing.Go(func() {
			for n := 0; !done.Load(); n++ {
				tx, err := db.Begin(true)
				if err != nil {
					t.Error(err)
					return
				}
				audit("a transaction", tx, n%2 == 0)
				err = errors.Join(tx.Put([]byte("audit"), nil), tx.Commit(context.Background()))
				if err != nil && !errors.Is(err, shale.ErrConflict) {
					t.Errorf("an audit: %v", err)
				}
			}
		})
		moving.Wait()
		done.Store(true)
		auditing.Wait()
		audit("in the end", db, false)
	})
}

// Two doctors are on call, and one has to stay: each of two transactions reads both, and takes one off (write skew). It is
// tried with points, with scans, and with scans that find nothing. At most one of those that overlap commits.
func TestWriteSkew(t *testing.T) {
	read := map[string]func(tx *shale.Txn, sub string) (here int, err error){
		"points": func(tx *shale.Txn, sub string) (here int, err error) {
			for _, who := range []string{"a", "b"} {
				has, hasErr := tx.Has([]byte(sub + who))
				if err = errors.Join(err, hasErr); has {
					here++
				}
			}
			return here, err
		},
		"a scan": func(tx *shale.Txn, sub string) (here int, err error) {
			for _, err := range tx.Scan(shale.Prefix(sub)) {
				if err != nil {
					return 0, err
				}
				here++
			}
			return here, nil
		},
	}
	rounds(t, func(t *testing.T, db *shale.DB, r *rand.Rand) {
		for what, read := range read {
			for n := range 40 {
				// At first both are there or none; each of the two may change that for itself while it is so.
				sub := fmt.Sprintf("%s/%d/", what, n)
				full := n%2 == 0
				for _, who := range []string{"a", "b"} {
					if full {
						if err := db.Put([]byte(sub+who), nil); err != nil {
							t.Fatal(err)
						}
					}
				}
				var conflicts, commits atomic.Int64
				var begun, wg sync.WaitGroup
				begun.Add(2)
				for _, who := range []string{"a", "b"} {
					wg.Go(func() {
						tx, err := db.Begin(true)
						begun.Done()
						begun.Wait() // both see the state before
						if err != nil {
							t.Error(err)
							return
						}
						defer tx.Discard()
						here, err := read(tx, sub)
						if want := map[bool]int{true: 2}[full]; here != want || err != nil {
							t.Errorf("%d are there, %v", here, err)
						}
						if full {
							err = tx.Delete([]byte(sub + who))
						} else {
							err = tx.Put([]byte(sub+who), nil)
						}
						switch err = errors.Join(err, tx.Commit(context.Background())); {
						case err == nil:
							commits.Add(1)
						case errors.Is(err, shale.ErrConflict):
							conflicts.Add(1)
						default:
							t.Error(err)
						}
					})
				}
				wg.Wait()
				if commits.Load() != 1 || conflicts.Load() != 1 {
					t.Fatalf("%s, both there: %v: %d commits and %d conflicts, want one of each", what, full, commits.Load(), conflicts.Load())
				}
			}
		}
	})
}
