package filterplan

import (
	"math"
	"testing"
)

// A testRun has tables in the middle of which half of their keys lie.
type testRun []testTable

type testTable struct {
	smallest, largest string
	keys              uint64
}

func (r *testRun) NumTables() int { return len(*r) }

func (r *testRun) KeyRange(i int) (smallest, largest []byte, keys uint64) {
	t := (*r)[i]
	return []byte(t.smallest), []byte(t.largest), t.keys
}

func (r *testRun) Rank(int, []byte) float64 { return 0.5 }

// Shares of the keys are those of the tables between whose bounds they lie.
func TestKeySpread(t *testing.T) {
	largest := &testRun{{"key0", "key1", 100}, {"key10", "key2", 300}, {"key4", "key8", 600}}
	other := &testRun{{"key", "key", 1}}
	s := NewKeySpread([]KeyRun{other, largest})
	if s.run != largest {
		t.Fatal("the spread is not that of the largest run")
	}
	for key, want := range map[string]float64{
		"": 0, "a": 0, "key": 0, "key0": 0, "key1": 100, "key10": 100, "key15": 250, "key2": 400, "key3": 400,
		"key4": 400, "key5": 700, "key8": 1000, "key9": 1000, "z": 1000,
	} {
		if got := s.rank([]byte(key)); math.Abs(got-want) > 1 {
			t.Errorf("%v keys come before %q, want %v", got, key, want)
		}
	}
	for _, c := range []struct {
		run  testRun
		want float64
	}{
		{testRun{{"a", "z", 1}}, 1},
		{testRun{{"a", "b", 1}, {"key9", "key9", 9}}, 0},
		{testRun{{"key1", "key2", 1}, {"key3", "y", 1}}, 0.3 + 0.6},
		{testRun{{"key4", "key4", 1}}, 0},
		{testRun{{"key0", "key5", 1}}, 0.7},
		{testRun{{"a", "z", 1}, {"a", "z", 1}}, 1},
	} {
		if got := s.Share(&c.run); math.Abs(got-c.want) > 0.002 {
			t.Errorf("tables %v: share %v, want %v", c.run, got, c.want)
		}
	}
	if got := s.Share(largest); got != 1 {
		t.Errorf("share %v of the largest run, want 1", got)
	}
	if got := NewKeySpread(nil).Share(other); got != 1 {
		t.Errorf("share %v if no keys are known, want 1", got)
	}
}

// Tables that do not say how many keys they have count for one each.
func TestKeySpread_WithoutCounts(t *testing.T) {
	largest := &testRun{{"a", "b", 0}, {"c", "d", 0}}
	s := NewKeySpread([]KeyRun{largest})
	if got := s.Share(&testRun{{"a", "c", 1}}); math.Abs(got-0.5) > 1e-9 {
		t.Errorf("share %v, want 0.5", got)
	}
}
