package shale

import (
	"fmt"
	"testing"
)

// About one lookup in sampleEvery is sampled, also of those that come in turns
// of any small length.
func TestSampled_OfEachTurn(t *testing.T) {
	const n = 1 << 16
	for turns := range 40 {
		counts := make([]int, turns+1)
		for i := range n {
			if sampled(uint64(i + 1)) {
				counts[i%(turns+1)]++
			}
		}
		want := n / sampleEvery / (turns + 1)
		for turn, got := range counts {
			if got < want*3/4 || got > want*5/4+1 {
				t.Errorf("turn %d of %d: %d of %d are sampled, want about %d", turn, turns+1, got, n/(turns+1), want)
			}
		}
	}
}

// A program that asks in turns for keys of two places has the negatives of the
// tables of both counted.
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
