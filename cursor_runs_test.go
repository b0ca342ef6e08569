package shale

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/shaledb/shale/internal/tree"
)

// A cursor's part of a run finds tables as a look at one after the other does: if it has all tables
// of the run, if the range leaves out some at the ends, and if filters leave out some in between.
func TestRunSource_Finds(t *testing.T) {
	opts := small()
	opts.TableSize, opts.CompactionWorkers = 4<<10, -1
	db := openTest(t, opts)
	for i := range 3000 {
		mustPut(t, db, fmt.Sprintf("key%06d", 2*i), fmt.Sprintf("a value of some bytes %d", mixed(i)))
	}
	if err := db.Compact(t.Context(), Range{}); err != nil {
		t.Fatal(err)
	}
	run := db.mems.View().Runs[0]
	n := len(run.Tables)
	if n < 12 {
		t.Fatalf("the run has %d tables, too few to leave some out", n)
	}
	var odd []*tree.Table
	for i := 1; i < n; i += 2 {
		odd = append(odd, run.Tables[i])
	}
	for name, s := range map[string]*runSource{
		"all":       {tables: run.Tables, run: run},
		"some":      {tables: run.Tables[3 : n-4], run: run, first: 3},
		"the last":  {tables: run.Tables[n-1:], run: run, first: n - 1},
		"every 2nd": {tables: odd},
	} {
		for i := range 6010 {
			key := fmt.Appendf(nil, "key%06d", i-5)
			from, before := 0, 0
			for at := range s.tables {
				smallest, largest := s.Bounds(at)
				if bytes.Compare(largest, key) < 0 {
					from++
				}
				if bytes.Compare(smallest, key) < 0 {
					before++
				}
			}
			if f, b := s.From(key), s.Before(key); f != from || b != before {
				t.Fatalf("%s: %d tables end before %s and %d begin before it, want %d and %d", name, f, key, b, from, before)
			}
		}
	}
}

// mixed scatters the bits of i, so that a value of it does not compress.
func mixed(i int) uint64 { return uint64(i) * 0x9e3779b97f4a7c15 }
