package shale

import (
	"fmt"
	"math"

	"github.com/shaledb/shale/internal/base"
)

// A filter is judged each time its false positives have doubled, from
// judgedFrom on: on the path of a lookup that has read a block in vain.
const judgedFrom = 64

// isWorse tells whether so many false positives among so many questions are
// more than chance explains, if the rate should be p: six standard deviations,
// and half as many again. Of a good filter it says so once in billions of times.
func isWorse(falsePositives, asked uint64, p float64) bool {
	expected := float64(asked) * p
	n := float64(falsePositives)
	return n > 1.5*expected && n > expected+6*math.Sqrt(expected)+6
}

// judgeFilter tells, once for a table, that its filter lets pass more than it
// should: a bad hash for the keys at hand, keys made by somebody to be false
// positives, or a mistake in the filter. n are its false positives so far.
func (db *DB) judgeFilter(t *table, n uint64) {
	if n < judgedFrom || n&(n-1) != 0 {
		return
	}
	asked, p := n+t.negatives.Load(), t.predictedFPR()
	if !isWorse(n, asked, p) || !t.worse.CompareAndSwap(false, true) {
		return
	}
	db.counters.worseFilters.Add(1)
	db.events.emit(Event{
		Kind: EventFilterWorse, Tables: []uint64{uint64(t.meta.Num)},
		Reason: fmt.Sprintf("%s false positives measured, %s predicted, asked %d times",
			base.FormatPercent(ratio(n, asked)), base.FormatPercent(p), asked),
	})
}
