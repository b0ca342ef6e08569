package shale

import (
	"fmt"
	"math"
	"testing"

	"github.com/shaledb/shale/vfs"
)

// Tables lists the tables by level, run and key. The sums over them are the figures of Metrics.
func TestTables_AgreeWithMetrics(t *testing.T) {
	opts := small()
	opts.CompactionWorkers = -1
	db := openTest(t, opts)
	fill(t, db, 10000, 0)
	settle(t, db)
	fill(t, db, 400, 1)
	mustFlush(t, db)
	sums := make([]LevelMetrics, NumLevels)
	last := TableInfo{Level: -1}
	for _, info := range db.Tables() {
		s := &sums[info.Level]
		s.Tables++
		s.Bytes += info.Size
		s.Entries += info.Entries
		s.FilterBytes += info.FilterBytes
		if info.FilterKind != "blocked" || info.PredictedFPR <= 0 || info.PredictedFPR > 0.5 || string(info.Smallest) > string(info.Largest) {
			t.Errorf("%+v", info)
		}
		if info.Level < last.Level || info.Level == last.Level && info.Run == last.Run && string(info.Smallest) <= string(last.Largest) {
			t.Errorf("table %d of L%d after table %d of L%d", info.Number, info.Level, last.Number, last.Level)
		}
		last = info
	}
	for i, l := range db.Metrics().Levels {
		s := sums[i]
		if l.Tables != s.Tables || l.Bytes != s.Bytes || l.Entries != s.Entries || l.FilterBytes != s.FilterBytes {
			t.Errorf("level %d: Metrics %+v, sums over Tables %+v", i, l, s)
		}
	}
}

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
	for _, table := range db.Tables() {
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
	table := db.Tables()[0]
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
