package shale

import (
	"context"
	"fmt"
	"math"
	"testing"

	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/vfs"
)

// A program looks up absent keys of two tables in turns. Lookups are sampled, and the count of each
// table is about right nevertheless.
func TestTables_AskedInTurns(t *testing.T) {
	opts := small()
	opts.CompactionWorkers = -1
	db := openTest(t, opts)
	for _, place := range []string{"a", "b"} {
		for i := range 100 {
			mustPut(t, db, fmt.Sprintf("%s%03d", place, i), "v")
		}
		mustFlush(t, db)
	}
	const n = 4000
	for i := range n {
		wantHas(t, db, fmt.Sprintf("a%03dx%d", i%99, i), false)
		wantHas(t, db, fmt.Sprintf("b%03dx%d", i%99, i), false)
	}
	for _, table := range db.Inspect().Tables() {
		if table.Asked < n*3/4 || table.Asked > n*5/4 {
			t.Errorf("table %d from %s: %d lookups are counted, %d were made", table.Number, table.Smallest, table.Asked, n)
		}
	}
}

// Rank says where keys are in a table, also when the table is gone and the store is closed.
func TestTableInfo_Rank(t *testing.T) {
	db, err := Open("db", &Options{FS: vfs.NewMem(), CompactionWorkers: -1, Durability: SyncManual})
	if err != nil {
		t.Fatal(err)
	}
	const n = 10_000
	for i := range n {
		mustPut(t, db, fmt.Sprintf("key%09d", i*i), "value")
	}
	mustFlush(t, db)
	table := db.Inspect().Tables()[0]
	check := func(when string, table TableInfo, tolerance float64) {
		t.Helper()
		for i := 0; i < n; i += n / 7 {
			if got := table.Rank(fmt.Appendf(nil, "key%09d", i*i)); math.Abs(got-float64(i)/n) > tolerance {
				t.Errorf("%s, Rank of key %d is %v, want %v", when, i, got, float64(i)/n)
			}
		}
		if first, last := table.Rank(nil), table.Rank([]byte("z")); first > tolerance || last < 1-tolerance {
			t.Errorf("%s, the ranks before and behind all keys are %v and %v", when, first, last)
		}
	}
	check("at first", table, 0.02)
	if err := db.Compact(t.Context(), Range{}); err != nil {
		t.Fatal(err)
	}
	check("when it is gone", table, 0.02)
	closeTest(t, db)
	check("on a closed store", table, 0.02)
}

// Tables allocates about once for each table, for its bounds.
func TestTables_Allocations(t *testing.T) {
	testenv.SkipRace(t)
	opts := small()
	opts.CompactionWorkers, opts.BlockSize = -1, 16<<10
	db := openTest(t, opts)
	value := make([]byte, opts.TableSize)
	const n = 300 // tables of one value each
	err := db.Ingest(context.Background(), func(yield func(k, v []byte) bool) {
		for i := 0; i < n && yield(fmt.Appendf(nil, "key%06d", i), value); i++ {
		}
	})
	if got := len(db.Inspect().Tables()); err != nil || got != n {
		t.Fatalf("%d tables, %v, want %d", got, err, n)
	}
	if got := allocationsOf(func() { db.Inspect().Tables() }); got > 1.1*n {
		t.Errorf("%v allocations for %d tables, want one for each and a few more", got, n)
	}
}
