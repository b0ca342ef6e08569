package shale

import (
	"fmt"
	"testing"
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
