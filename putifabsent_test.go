package shale

import (
	"fmt"
	"slices"
	"sync"
	"testing"
)

func TestPutIfAbsent(t *testing.T) {
	db := openTest(t, small())
	for i, want := range []bool{true, false, false} {
		if got, err := db.PutIfAbsent([]byte("k"), fmt.Append(nil, i)); got != want || err != nil {
			t.Errorf("PutIfAbsent %d = %v, %v; want %v", i, got, err, want)
		}
	}
	wantGet(t, db, "k", "0", true)
	mustDelete(t, db, "k")
	if got, err := db.PutIfAbsent([]byte("k"), []byte("again")); !got || err != nil {
		t.Errorf("PutIfAbsent of a deleted key = %v, %v; want true", got, err)
	}
}

// TestPutIfAbsent_OneWinner: of many who claim a key one wins, with every hash
// function, with and without syncs, and with keys whose claims meet in one group.
func TestPutIfAbsent_OneWinner(t *testing.T) {
	for _, hash := range []FilterHash{Murmur3, XXH3, SipHash} {
		for _, d := range []Durability{SyncEach, SyncManual} {
			t.Run(fmt.Sprintf("%v/%v", hash, d), func(t *testing.T) {
				o := small()
				o.FilterHash, o.Durability = hash, d
				claimAll(t, openTest(t, o))
			})
		}
	}
}

// claimAll has goroutines claim the same keys, and counts the winners.
func claimAll(t *testing.T, db *DB) {
	const goroutines, keys = 8, 2000
	var won [goroutines]int
	var wg sync.WaitGroup
	for g := range goroutines {
		wg.Go(func() {
			for i := range keys {
				ok, err := db.PutIfAbsent(fmt.Appendf(nil, "key%05d", i), fmt.Append(nil, g))
				if err != nil {
					t.Error(err)
					return
				}
				if ok {
					won[g]++
				}
			}
		})
	}
	wg.Wait()
	sum := 0
	for _, n := range won {
		sum += n
	}
	if sum != keys {
		t.Errorf("%d claims won for %d keys", sum, keys)
	}
	counts := make([]int, goroutines)
	for e, err := range db.Scan(Range{}) {
		if err != nil {
			t.Fatal(err)
		}
		counts[e.Value[0]-'0']++
	}
	if !slices.Equal(counts, won[:]) {
		t.Errorf("values in the store %v, claims won %v", counts, won)
	}
}
