package tree

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/manifest"
)

// fakeRun returns a run of n tables with two keys each: key(2i) and key(2i+1).
func fakeRun(n int, key func(i int) []byte) *Run {
	tables := make([]*Table, n)
	for i := range tables {
		tables[i] = &Table{Meta: &manifest.Table{Smallest: key(2 * i), Largest: key(2*i + 1)}}
	}
	return newRun(6, 0, tables)
}

// findTime returns the shortest time of a Find over several rounds.
func findTime(r *Run, n int, key func(i int) []byte) time.Duration {
	keys := make([][]byte, 2000)
	rnd := rand.New(rand.NewPCG(1, 2))
	for i := range keys {
		keys[i] = key(rnd.IntN(2 * n))
	}
	best := time.Hour
	for range 5 {
		begin := time.Now()
		for _, k := range keys {
			if r.Find(k) == nil {
				panic("a table's bound is in no table")
			}
		}
		best = min(best, time.Since(begin)/time.Duration(len(keys)))
	}
	return best
}

// The number of steps of a Find grows with the logarithm of the number
// of tables, even if the first eight bytes of all keys are the same.
func TestRunFind_NotLinear(t *testing.T) {
	if testenv.Race {
		t.Skip("the race detector makes times meaningless")
	}
	shapes := map[string]func(i int) []byte{
		"integers":           func(i int) []byte { return binary.BigEndian.AppendUint64(nil, uint64(i)) },
		"decimal":            func(i int) []byte { return fmt.Appendf(nil, "user%012d", i) },
		"long common prefix": func(i int) []byte { return fmt.Appendf(nil, "https://www.example.org/item/%012d", i) },
		"two tenants, one with a table": func(i int) []byte {
			if i < 2 {
				return fmt.Appendf(nil, "a%d", i)
			}
			return fmt.Appendf(nil, "b/a long common prefix/%012d", i)
		},
	}
	for name, key := range shapes {
		const few, many = 512, 32 << 10
		small := findTime(fakeRun(few, key), few, key)
		large := findTime(fakeRun(many, key), many, key)
		t.Logf("%-30s %6v of %d tables, %6v of %d", name, small, few, large, many)
		if large > 20*small+10*time.Microsecond { // a walk along 32,768 tables takes 70 µs
			t.Errorf("%s: find takes %v of %d tables and %v of %d", name, small, few, large, many)
		}
	}
}

func TestRunFind_EqualWords(t *testing.T) {
	key := func(i int) []byte {
		if i < 2 {
			return fmt.Appendf(nil, "a%d", i)
		}
		return fmt.Appendf(nil, "same prefix %04d", i)
	}
	r := fakeRun(100, func(i int) []byte { return key(10 * i) }) // [a0 .. 0010], [0020 .. 0030], ...
	for i := 2; i < 1990; i++ {
		want := i / 20
		if i%20 > 10 {
			want = -1
		}
		got := r.Find(key(i))
		if want < 0 && got != nil || want >= 0 && got != r.Tables[want] {
			t.Errorf("find(%q): %v, want table %d", key(i), got, want)
		}
	}
	for _, k := range []string{"", "a", "a00", "same prefix", "same prefix 9999", "z"} {
		want := (*Table)(nil)
		if k == "a00" || k == "same prefix" {
			want = r.Tables[0]
		}
		if got := r.Find([]byte(k)); got != want {
			t.Errorf("find(%q) = %v, want %v", k, got, want)
		}
	}
}

// newRun makes a run of tables.
func newRun(level, nth int, tables []*Table) *Run {
	r := layout(level, nth, tables[0].Meta.Smallest, tables[len(tables)-1].Meta.Largest, len(tables))
	for i, t := range tables {
		r.put(i, t)
		r.Keys += t.Meta.Keys
	}
	return r
}
