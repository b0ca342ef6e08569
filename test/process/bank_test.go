package process

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/test/harness"
)

const (
	bankAccounts = 20
	bankEach     = 1000
)

func bankKey(i int) []byte { return fmt.Appendf(nil, "account/%02d", i) }

// bankNumber returns the number that r has at key; absent is 0.
func bankNumber(r shale.Reader, key []byte) (int64, error) {
	value, err := r.Get(key)
	if err != nil {
		if errors.Is(err, shale.ErrNotFound) {
			err = nil
		}
		return 0, err
	}
	return int64(binary.BigEndian.Uint64(value)), nil
}

func bankPut(w shale.Writer, key []byte, n int64) error {
	return w.Put(key, binary.BigEndian.AppendUint64(nil, uint64(n)))
}

// TestKill_Bank_Child is not a test: TestKill_Bank runs it in a process of its own.
func TestKill_Bank_Child(t *testing.T) { beKilled(t, bankChild) }

// bankChild moves money between the accounts until it is killed, and reports each transaction on its standard output.
func bankChild(dir string, seed, run uint64) error {
	o := harness.DrawOnDisk(seed, run)
	o.LockTimeout, o.Shipping.Gate = 5*time.Second, nil
	db, err := shale.Open(dir, &o)
	if err != nil {
		return fmt.Errorf("the child's Open: %w", err)
	}
	if err := db.Update(context.Background(), func(tx *shale.Txn) error {
		if has, err := tx.Has(bankKey(0)); has || err != nil {
			return err
		}
		for i := range bankAccounts {
			if err := bankPut(tx, bankKey(i), bankEach); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		return err
	}
	failed := make(chan error, killWriters+1)
	for c := range killWriters {
		r := rand.New(rand.NewPCG(seed, run<<8|uint64(c)))
		go func() { failed <- bankClient(db, r, c) }()
	}
	go func() {
		for r := rand.New(rand.NewPCG(seed, run)); ; time.Sleep(time.Duration(r.IntN(5)) * time.Millisecond) {
			if err := db.Flush(context.Background()); err != nil {
				failed <- err
				return
			}
		}
	}()
	return <-failed
}

var errDiscarded = errors.New("discarded")

// bankClient moves money. How many transactions of it were committed is in the store too.
func bankClient(db *shale.DB, r *rand.Rand, client int) error {
	done := fmt.Appendf(nil, "done/%d", client)
	var n int64
	for range 1_000_000 { // by far more than the parent has patience for
		from, to, amount := r.IntN(bankAccounts), r.IntN(bankAccounts), r.Int64N(50)
		discard, durability := r.IntN(4) == 0, []shale.Durability{shale.SyncEach, shale.SyncManual, shale.SyncManual, shale.SyncManual}[r.IntN(4)]
		err := db.Update(context.Background(), func(tx *shale.Txn) error {
			tx.SetDurability(durability)
			a, errA := bankNumber(tx, bankKey(from))
			errA = errors.Join(errA, bankPut(tx, bankKey(from), a-amount))
			b, errB := bankNumber(tx, bankKey(to))
			errB = errors.Join(errB, bankPut(tx, bankKey(to), b+amount))
			var err error
			n, err = bankNumber(tx, done)
			n++
			err = errors.Join(errA, errB, err, bankPut(tx, done, n))
			if discard && err == nil {
				return errors.Join(errDiscarded, bankPut(tx, fmt.Appendf(nil, "discarded/%d/%d", client, n), n))
			}
			return err
		})
		if discard && errors.Is(err, errDiscarded) {
			continue
		}
		if err != nil {
			return fmt.Errorf("the child's Update: %w", err)
		}
		if _, err := os.Stdout.Write(binary.LittleEndian.AppendUint64(nil, uint64(client)<<48|uint64(n))); err != nil {
			return err
		}
	}
	return errors.New("nobody killed the child")
}

// A process whose clients move money is killed again and again. No money is lost, no transaction that it has acknowledged,
// and nothing of one that was discarded is there.
func TestKill_Bank(t *testing.T) {
	testenv.CheckLeaks(t)
	seed, begin, long := testenv.Seed(t), time.Now(), testenv.Long(t)
	runs := uint64(10)
	if testing.Short() {
		runs = 3
	}
	dir := filepath.Join(t.TempDir(), "db")
	r := rand.New(rand.NewPCG(seed, 0))
	var last [killWriters]int
	run, commits := uint64(0), 0
	for ; run < runs || time.Since(begin) < long; run++ {
		acked := killedChild(t, "TestKill_Bank_Child", dir, seed, run, r)
		if !exists(filepath.Join(dir, "CURRENT")) {
			continue // it was killed before there was a store
		}
		for c, n := range acked {
			commits += max(0, n-last[c])
			acked[c] = max(n, last[c])
		}
		if last = bankCheck(t, dir, seed+1, run, acked); t.Failed() {
			return
		}
	}
	t.Logf("%d kills, %d acknowledged transactions, none lost, in %v", run, commits, time.Since(begin).Round(time.Millisecond))
}

// bankCheck checks what a child has left, and returns how many transactions of each client there are.
func bankCheck(t *testing.T, dir string, seed, run uint64, acked [killWriters]int) (there [killWriters]int) {
	t.Helper()
	o := harness.DrawOnDisk(seed, run)
	o.ReadOnly = run%3 > 0
	text := harness.OptionsText(&o)
	db, err := shale.Open(dir, &o)
	if err != nil {
		t.Fatalf("run %d: Open (read-only: %v): %v; %s", run, o.ReadOnly, err, text)
	}
	err = db.View(func(tx *shale.Txn) error {
		accounts, total := 0, int64(0)
		for e, err := range tx.Scan(shale.Range{}) {
			n := int64(0)
			if len(e.Value) == 8 {
				n = int64(binary.BigEndian.Uint64(e.Value))
			}
			var client int
			switch {
			case err != nil:
				return err
			case string(e.Key[:5]) == "accou":
				accounts++
				total += n
			case string(e.Key[:5]) == "done/":
				_, _ = fmt.Sscanf(string(e.Key), "done/%d", &client)
				there[client] = int(n)
			default:
				return fmt.Errorf("%q is there", e.Key)
			}
		}
		if accounts > 0 && (accounts != bankAccounts || total != bankAccounts*bankEach) {
			return fmt.Errorf("%d accounts have %d, want %d with %d", accounts, total, bankAccounts, bankAccounts*bankEach)
		}
		for c, n := range acked {
			// The one transaction that was under way may be there.
			if there[c] < n || there[c] > n+1 {
				return fmt.Errorf("client %d has committed %d transactions, %d are there", c, n, there[c])
			}
		}
		return nil
	})
	if err != nil {
		t.Errorf("run %d (read-only: %v): %v; %s", run, o.ReadOnly, err, text)
	}
	if err := harness.Close(db); err != nil {
		t.Errorf("run %d: %v; %s", run, err, text)
	}
	return there
}
