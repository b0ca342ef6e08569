package transact

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/internal/testenv"
)

// This file has transactions that are large or long. They have their full size with SHALE_LONG.

// size returns a share of n, or n if there is time.
func size(t *testing.T, n int) int {
	if testenv.Long(t) == 0 {
		n /= 20
	}
	if testenv.Race {
		n /= 5
	}
	return n
}

func open(t *testing.T) *shale.DB {
	t.Helper()
	testenv.CheckLeaks(t)
	db, err := shale.Open(t.TempDir(), &shale.Options{Durability: shale.SyncManual})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

func bigKey(i int) []byte {
	return binary.BigEndian.AppendUint64([]byte("big/"), uint64(i)*0x9e3779b97f4a7c15)
}

// count returns how many entries r has below prefix, each of which must be found by Get too, if get is set.
func count(t *testing.T, r shale.Reader, prefix string, reverse, get bool) (n int) {
	t.Helper()
	rng := shale.Prefix(prefix)
	rng.Reverse = reverse
	for e, err := range r.Scan(rng) {
		if err != nil {
			t.Fatal(err)
		}
		if n++; get {
			if has, err := r.Has(e.Key); !has || err != nil {
				t.Fatalf("Has(%q) = %v, %v", e.Key, has, err)
			}
		}
	}
	return n
}

// A million writes are one transaction: it sees them itself, others see none and then all, and they are there after the
// store was opened again.
func TestManyWrites(t *testing.T) {
	n := size(t, 1_000_000)
	dir := t.TempDir()
	db, err := shale.Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	var stop atomic.Bool
	var looking sync.WaitGroup
	looks := 0
	looking.Go(func() {
		for ; !stop.Load(); looks++ {
			err := db.View(func(tx *shale.Txn) error {
				first, errFirst := tx.Has(bigKey(0))
				last, errLast := tx.Has(bigKey(n - 1))
				if first != last {
					t.Errorf("the first write is there: %v, the last: %v", first, last)
				}
				return errors.Join(errFirst, errLast)
			})
			if err != nil {
				t.Error(err)
			}
		}
	})
	begin := time.Now()
	err = db.Update(context.Background(), func(tx *shale.Txn) error {
		for i := range n {
			if err := tx.Put(bigKey(i), []byte("v")); err != nil {
				return err
			}
		}
		// Deleting what a scan has found does not disturb the scan.
		deleted := 0
		for e, err := range tx.Scan(shale.Prefix("big/")) {
			if err != nil {
				return err
			}
			if deleted%2 == 0 {
				if err := tx.Delete(e.Key); err != nil {
					return err
				}
			}
			deleted++
		}
		if deleted != n {
			t.Errorf("a scan of its own %d writes shows %d", n, deleted)
		}
		if left := count(t, tx, "big/", true, false); left != n/2 {
			t.Errorf("%d entries are left in the transaction, want %d", left, n/2)
		}
		for i := range n {
			if err := tx.Put(bigKey(i), []byte("again")); err != nil {
				return err
			}
		}
		return nil
	})
	took := time.Since(begin)
	if err != nil {
		t.Error(err)
	}
	stop.Store(true)
	looking.Wait()
	if err := db.Close(); err != nil {
		t.Error(err)
	}
	if db, err = shale.Open(dir, nil); err != nil {
		t.Fatal(err)
	}
	if found := count(t, db, "big/", false, false); found != n {
		t.Errorf("%d entries after the store was opened again, want %d", found, n)
	}
	if err := db.Close(); err != nil {
		t.Error(err)
	}
	t.Logf("%d writes in %v, %d looks meanwhile", 2*n+n/2, took.Round(time.Millisecond), looks)
}

// More than a batch may have is refused, and the transaction can do without.
func TestTooManyWrites(t *testing.T) {
	if testing.Short() {
		t.Skip("it writes 256 MiB")
	}
	db := open(t)
	value := make([]byte, 8<<20)
	var refused error
	err := db.Update(context.Background(), func(tx *shale.Txn) error {
		written := 0
		for ; refused == nil && written < 100; written++ {
			refused = tx.Put(fmt.Appendf(nil, "k%d", written), value)
		}
		if has, err := tx.Has(fmt.Appendf(nil, "k%d", written-1)); has || err != nil {
			t.Errorf("what was refused is there: %v, %v", has, err)
		}
		return nil
	})
	if !errors.Is(refused, shale.ErrValueTooLarge) || err != nil {
		t.Errorf("Put = %v, Update = %v", refused, err)
	}
}

// Ten million reads are one transaction, which commits if nothing of it was changed, and not if one key was.
func TestManyReads(t *testing.T) {
	n := size(t, 10_000_000)
	db := open(t)
	stored := n / 10
	var b shale.Batch
	for i := range stored {
		if err := b.Put(bigKey(i), []byte("v")); err != nil {
			t.Fatal(err)
		}
		if b.Len() == 10_000 || i == stored-1 {
			if err := db.Write(context.Background(), &b); err != nil {
				t.Fatal(err)
			}
			b.Reset()
		}
	}
	spoils := []string{"", "a present key", "an absent key", "a gap of the scan"}
	if testenv.Long(t) > 0 { // minutes otherwise
		spoils = []string{"", spoils[1+testenv.Seed(t)%3]}
	}
	for _, spoil := range spoils {
		tx, err := db.Begin(true)
		if err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		for i := range n {
			if has, err := tx.Has(bigKey(i)); has != (i < stored) || err != nil {
				t.Fatalf("key %d is there: %v, %v", i, has, err)
			}
		}
		if found := count(t, tx, "big/", false, false); found != stored {
			t.Fatalf("%d entries, want %d", found, stored)
		}
		read := time.Since(begin)
		key := map[string][]byte{"a present key": bigKey(stored / 3), "an absent key": bigKey(n - n/3), "a gap of the scan": append(bigKey(stored/2), 0)}[spoil]
		if spoil == "" {
			key = []byte("elsewhere")
		}
		if err := db.Put(key, []byte("v")); err != nil {
			t.Fatal(err)
		}
		begin = time.Now()
		err = errors.Join(tx.Put([]byte("result"), nil), tx.Commit(context.Background()))
		if errors.Is(err, shale.ErrConflict) != (spoil != "") || spoil == "" && err != nil {
			t.Errorf("Commit = %v, although another wrote %q", err, key)
		}
		t.Logf("%d reads in %v, Commit in %v: %v", n+stored, read.Round(time.Millisecond), time.Since(begin).Round(time.Microsecond), err)
		if spoil == "an absent key" || spoil == "a gap of the scan" {
			if err := db.Delete(key); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// A transaction that reads for long commits next to a writer at full speed, which changes nothing that it has read: its
// neighbours only. Then one that has read what the writer changes does not.
func TestLongReader(t *testing.T) {
	db := open(t)
	const keys = 2000
	for i := range keys {
		if err := put(db, fmt.Appendf(nil, "mine/%04d", i), 1); err != nil {
			t.Fatal(err)
		}
	}
	var stop atomic.Bool
	var writing sync.WaitGroup
	var written atomic.Int64
	writing.Go(func() {
		value := make([]byte, 100)
		for i := 0; !stop.Load(); i++ {
			if err := db.Put(fmt.Appendf(nil, "%s/%06d", []string{"mind", "minf"}[i%2], i%200_000), value); err != nil {
				t.Error(err)
			}
			written.Add(1)
		}
	})
	last := max(testenv.Long(t)/2, 300*time.Millisecond)
	for _, lost := range []bool{false, true} {
		err := func() error {
			tx, err := db.Begin(true)
			if err != nil {
				return err
			}
			defer tx.Discard()
			sum := int64(0)
			for begin := time.Now(); time.Since(begin) < last; {
				sum = 0
				for i := range keys {
					n, err := number(tx, fmt.Appendf(nil, "mine/%04d", i))
					if sum += n; err != nil {
						return err
					}
				}
				if n := count(t, tx, "mine/", false, false); sum != keys || n != keys {
					t.Errorf("%d entries have %d", n, sum)
				}
			}
			if lost {
				count(t, tx, "min", true, false)
				for was := written.Load(); written.Load() < was+2 && !t.Failed(); {
					time.Sleep(time.Millisecond)
				}
			}
			return errors.Join(put(tx, []byte("sum"), sum), tx.Commit(context.Background()))
		}()
		if errors.Is(err, shale.ErrConflict) != lost || !lost && err != nil {
			t.Errorf("Commit = %v, want a conflict: %v", err, lost)
		}
	}
	stop.Store(true)
	writing.Wait()
	t.Logf("%d writes next to it", written.Load())
}
