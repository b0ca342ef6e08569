package filterplan

import (
	"bytes"
	"fmt"
	"math"
	"sort"
	"testing"
)

// A testRun has tables in the middle of which half of their keys lie.
type testRun []testTable

type testTable struct {
	smallest, largest string
	keys              uint64
}

func (r *testRun) NumTables() int { return len(*r) }

func (r *testRun) NumKeys() (n uint64) {
	for _, t := range *r {
		n += t.keys
	}
	return n
}

func (r *testRun) KeyRange(i int) (smallest, largest []byte, keys uint64) {
	t := (*r)[i]
	return []byte(t.smallest), []byte(t.largest), t.keys
}

func (r *testRun) From(key []byte) int {
	return sort.Search(len(*r), func(i int) bool { return (*r)[i].largest >= string(key) })
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

// A longRun has tables of 10 keys each, from 10i to 10i+9, and counts how often it was asked
// for one.
type longRun struct{ first, n, asked int }

func (r *longRun) NumTables() int  { return r.n }
func (r *longRun) NumKeys() uint64 { return uint64(10 * r.n) }
func (r *longRun) KeyRange(i int) (smallest, largest []byte, keys uint64) {
	r.asked++
	key := func(k int) []byte { return fmt.Appendf(nil, "%09d", k) }
	return key(10 * (r.first + i)), key(10*(r.first+i) + 9), 10
}
func (r *longRun) From(key []byte) int {
	return sort.Search(r.n, func(i int) bool { _, largest, _ := r.KeyRange(i); return bytes.Compare(largest, key) >= 0 })
}
func (r *longRun) Rank(int, []byte) float64 { return 0.5 }

// Among a hundred times as many tables, shares are as right and take not much longer.
func TestKeySpread_AnyNumberOfTables(t *testing.T) {
	var asked [2]int
	for i, n := range []int{1000, 100_000} {
		largest, quarter := &longRun{n: n}, &longRun{first: n / 3, n: n / 4}
		s := NewKeySpread([]KeyRun{quarter, largest})
		if got := s.Share(quarter); math.Abs(got-0.25) > 0.005 {
			t.Errorf("%d tables: share %v, want 0.25", n, got)
		}
		if got := s.rank(fmt.Appendf(nil, "%09d", 10*(n/3)+5)); math.Abs(got-float64(10*(n/3)+5)) > 1 {
			t.Errorf("%d tables: %v keys are below the third part, want %d", n, got, 10*(n/3)+5)
		}
		asked[i] = largest.asked + quarter.asked
	}
	// A search is logarithmic: 17 steps instead of 10.
	if asked[0] == 0 || asked[1] > 2*asked[0] {
		t.Errorf("asked for tables %d times among 1,000, and %d times among 100,000", asked[0], asked[1])
	}
}
