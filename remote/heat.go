package remote

import (
	"cmp"
	"math"
	"time"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/manifest"
)

// Which tables go first: of a level the coldest. What counts is what lookups and seeks read from the file, because that is
// what would be requests. Blocks that are in the block cache would be none, and absent keys that a filter denies neither.

// halfLife is the time after which a read of a table counts half.
const halfLife = 10 * time.Minute

// A heat is how warm a table is.
type heat struct {
	sought uint32  // what Shipping.Sought said at the last look
	reads  float64 // up to then, each less the older it is
}

// heats are those of the tables that can go. They are looked at when some must, so the reads between two looks count as if
// all were of the second. They begin empty with each Open.
type heats struct {
	of   map[base.FileNum]heat
	last time.Time
}

// look takes in what was read of tables since the last look. A table that was not there then begins with the mean of its level:
// a compaction has made it of others, which may be warm.
func (h *heats) look(tables []manifest.Added, sought func(table uint64) uint32, now time.Time) {
	faded := math.Exp2(-float64(now.Sub(h.last)) / float64(halfLife))
	next := make(map[base.FileNum]heat, len(tables))
	sums, counts := make(map[int]float64), make(map[int]float64) // by level
	for _, a := range tables {
		was, known := h.of[a.Table.Num]
		n := sought(uint64(a.Table.Num))
		is := heat{n, was.reads*faded + float64(n-was.sought)}
		if known {
			sums[a.Level] += is.reads
			counts[a.Level]++
		}
		next[a.Table.Num] = is
	}
	for _, a := range tables {
		if _, known := h.of[a.Table.Num]; !known && counts[a.Level] > 0 {
			is := next[a.Table.Num]
			is.reads += sums[a.Level] / counts[a.Level]
			next[a.Table.Num] = is
		}
	}
	h.of, h.last = next, now
}

// compare returns which of two tables is colder, as cmp.Compare does.
func (h *heats) compare(a, b base.FileNum) int { return cmp.Compare(h.of[a].reads, h.of[b].reads) }
