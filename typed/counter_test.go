package typed

import (
	"errors"
	"math"
	"sync"
	"testing"

	"github.com/shaledb/shale"
)

// 16 goroutines add to one counter, and to that of a map, and the sums are exact.
func TestAdd_Concurrent(t *testing.T) {
	db := open(t)
	hits := NewMap("hits", String, Counter)
	byCount := NewIndex(hits, "count", Int64, func(n int64) int64 { return n })
	const each = 50
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			for range each {
				update(t, db, func(tx *shale.Txn) error {
					_, err := Add(tx, []byte("n"), -3)
					_, err2 := AddTo(tx.Sub("sub/"), hits, "page", 2)
					return errors.Join(err, err2)
				})
			}
		})
	}
	wg.Wait()
	update(t, db, func(tx *shale.Txn) error {
		if n, err := Add(tx, []byte("n"), 0); n != -3*16*each || err != nil {
			t.Errorf("Add = %d, %v", n, err)
		}
		want(t, "the map", byCount.Scan(tx.Sub("sub/"), Only(int64(2*16*each))), "{1600 {page 1600}}")
		return nil
	})
}

func TestAdd_Refused(t *testing.T) {
	db := open(t)
	m := NewMap("m", String, Counter)
	if _, err := Add(db, []byte("n"), 1); !errors.Is(err, ErrNoTxn) {
		t.Errorf("Add on a DB = %v", err)
	}
	if _, err := AddTo(db, m, "n", 1); !errors.Is(err, ErrNoTxn) {
		t.Errorf("AddTo on a DB = %v", err)
	}
	update(t, db, func(tx *shale.Txn) error {
		for n, delta := range map[int64]int64{math.MaxInt64: 1, 1: math.MaxInt64, math.MinInt64: -1, -2: math.MinInt64 + 1} {
			err := errors.Join(m.Put(tx, "n", n), tx.Put([]byte("n"), []byte("short")))
			if err != nil {
				return err
			}
			if sum, err := AddTo(tx, m, "n", delta); err == nil {
				t.Errorf("%d and %d is %d", n, delta, sum)
			}
			if again, err := m.Get(tx, "n"); again != n || err != nil {
				t.Errorf("after a refusal: %d, %v; want %d", again, err, n)
			}
			sum, err := AddTo(tx, m, "n", -delta)
			if err != nil || sum != n-delta {
				t.Errorf("%d less %d is %d, %v", n, delta, sum, err)
			}
		}
		if _, err := Add(tx, []byte("n"), 1); err == nil || err.Error() != `typed: counter "n": 5 bytes where 8 belong` {
			t.Errorf("Add to other bytes = %v", err)
		}
		return nil
	})
}
