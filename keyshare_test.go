package shale

import (
	"context"
	"fmt"
	"math"
	"testing"

	"github.com/shaledb/shale/manifest"
)

// Shares of the keys are those of the tables between whose bounds they lie.
func TestKeyRanks(t *testing.T) {
	tableOf := func(smallest, largest string, keys uint64) *table {
		return &table{meta: &manifest.Table{Smallest: []byte(smallest), Largest: []byte(largest), Keys: keys}}
	}
	ref := newRun(6, 0, []*table{tableOf("key0", "key1", 100), tableOf("key10", "key2", 300), tableOf("key4", "key8", 600)})
	other := newRun(5, 0, []*table{tableOf("key", "key", 1)})
	k := ranksOf([]*run{other, ref})
	if k.run != ref || ranksOf(nil) != nil {
		t.Fatal("ranks are not those of the largest run")
	}
	for key, want := range map[string]float64{
		"": 0, "a": 0, "key": 0, "key0": 0, "key1": 100, "key10": 100, "key2": 400, "key3": 400, "key4": 400, "key8": 1000, "key9": 1000, "z": 1000,
	} {
		if got := k.rank([]byte(key)); math.Abs(got-want) > 1 {
			t.Errorf("%v keys come before %q, want %v", got, key, want)
		}
	}
	for _, c := range []struct {
		tables []*table
		want   float64
	}{
		{[]*table{tableOf("a", "z", 1)}, 1},
		{[]*table{tableOf("a", "b", 1), tableOf("key9", "key9", 9)}, 0},
		{[]*table{tableOf("key1", "key2", 1), tableOf("key3", "y", 1)}, 0.3 + 0.6},
		{[]*table{tableOf("key4", "key4", 1)}, 0},
	} {
		if got := k.share(newRun(5, 0, c.tables)); math.Abs(got-c.want) > 0.002 {
			t.Errorf("tables %v: share %v, want %v", c.tables, got, c.want)
		}
	}
}

// A level that has a quarter of the keys in its midst is asked by a quarter of the
// lookups, and counts for as much in the rate of the store.
func TestMetrics_KeyShare(t *testing.T) {
	db := openTest(t, &Options{CompactionWorkers: -1, Durability: SyncManual})
	const n = 20_000
	put := func(from, to int) {
		for i := from; i < to; i++ {
			if err := db.Put(fmt.Appendf(nil, "key%08x", uint32(i)*(1<<32/n)), []byte("v")); err != nil {
				t.Fatal(err)
			}
		}
		mustFlush(t, db)
	}
	put(0, n)
	if err := db.Compact(context.Background(), Range{}); err != nil {
		t.Fatal(err)
	}
	put(n/2, 3*n/4)
	m := db.Metrics()
	l0, l6 := m.Levels[0], m.Levels[NumLevels-1]
	if math.Abs(l0.KeyShare-0.25) > 0.01 || l6.KeyShare != 1 || m.Levels[3].KeyShare != 0 {
		t.Errorf("key shares %v, %v and %v, want 0.25, 1 and 0", l0.KeyShare, l6.KeyShare, m.Levels[3].KeyShare)
	}
	if want := l0.KeyShare*l0.PredictedFPR + l6.PredictedFPR; math.Abs(m.PredictedFPR()-want) > 1e-9 {
		t.Errorf("PredictedFPR = %v, want %v", m.PredictedFPR(), want)
	}
}
