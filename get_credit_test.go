package shale

import (
	"math"
	"testing"

	"github.com/shaledb/shale/compaction"
	"github.com/shaledb/shale/internal/testenv"
)

// Lookups of absent keys ask each run of level 0. When that has cost as much as a compaction of
// it, level 0 is compacted although it has few runs, and not before. So it is with GetMany.
func TestLookups_CompactLevel0(t *testing.T) {
	testenv.SkipRace(t)
	for name, lookUp := range map[string]func(s *seekStore, keys [][]byte) error{
		"Has": func(s *seekStore, keys [][]byte) error {
			for _, key := range keys {
				if has, err := s.Has(key); has || err != nil {
					t.Fatalf("Has(%q) = %v, %v", key, has, err)
				}
			}
			return nil
		},
		"GetMany": func(s *seekStore, keys [][]byte) error {
			return s.GetMany(keys, func(i int, _ []byte, found bool) error {
				if found {
					t.Fatalf("%q is found", keys[i])
				}
				return nil
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSeekStore(t, 8<<20)
			price := s.price()
			// Keys in the range of both runs of level 0. A filter that says maybe is counted once,
			// and remembered, so some more lookups than these are needed.
			need := int(price / (2 * compaction.LookupCost))
			keys := make([][]byte, need/2)
			for i := range keys {
				keys[i] = append(seekKey(nil, 100+i%(seekKeys-200)), '.')
			}
			if err := lookUp(s, keys); err != nil {
				t.Fatal(err)
			}
			if s.scheduler.ReadsPay() || s.oftenRead.Load() != 0 {
				t.Fatalf("%d lookups pay %d", len(keys), price)
			}
			for range 2 {
				if err := lookUp(s, keys); err != nil {
					t.Fatal(err)
				}
			}
			testenv.WaitFor(t, "level 0 to be compacted", func() bool { return s.oftenRead.Load() == 1 })
			s.runs(0)
			if got := s.bytes.Load(); got > price {
				t.Errorf("the compaction took %d bytes, for a price of %d", got, price)
			}
			if price := s.scheduler.Reads.Price.Load(); price != math.MaxInt64 {
				t.Errorf("an empty level 0 has the price %d", price)
			}
		})
	}
}

// A store without filters lets level 0 have four runs only, since a lookup reads a block in each.
func TestLookups_WithoutFilters(t *testing.T) {
	for bits, want := range map[float64]int{10: compaction.Level0Runs, -1: 4} {
		db := openTest(t, &Options{MemtableSize: 1 << 20, Durability: SyncManual, FilterBits: bits})
		for n := 1; n < want; n++ {
			fill(t, db, 100, n)
			mustFlush(t, db)
			waitIdle(t, db)
			if got := len(db.mems.View().Meta.Levels[0].Runs); got != n {
				t.Fatalf("%v bits: %d runs after %d flushes", bits, got, n)
			}
		}
		fill(t, db, 100, want)
		mustFlush(t, db)
		testenv.WaitFor(t, "a compaction of level 0", func() bool { return len(db.mems.View().Meta.Levels[0].Runs) == 0 })
		closeTest(t, db)
	}
}
