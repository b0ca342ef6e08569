package residency

import (
	"math"
	"slices"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/tree"
)

// This file does for indexes what filters.go does for filters. An index is in memory as a whole
// or not at all. Those of the deepest level are released first: it has most of the tables, and
// each of its tables is asked the least often.

// fitIndexesLocked releases indexes of v if they exceed the limit. It then releases a sixteenth
// of the limit more than it must. So it need not look for an index to release after each change
// of the tables, among many tables that have none in memory. Requires: mu is held.
func (f *Filters) fitIndexesLocked(v *tree.Version) {
	limit := f.env.IndexLimit
	if limit == 0 {
		return
	}
	excess := v.IndexMemory() - limit
	if excess <= 0 {
		return
	}
	excess += limit / 16
	for _, r := range slices.Backward(v.Runs) {
		for _, t := range slices.Backward(r.Tables) {
			if excess <= 0 {
				return
			}
			if t.Reader.DropIndex() {
				excess -= t.Reader.IndexBytes()
			}
		}
	}
}

// restoreIndexesLocked reads the indexes that are not in memory and for which there is room,
// beginning with the newest run. Like restoreLocked it leaves a sixteenth of the limit free, and
// reports whether there is more to read. Requires: mu is held, and the caller holds v's files.
func (f *Filters) restoreIndexesLocked(v *tree.Version) (more bool) {
	room := int64(math.MaxInt64)
	if limit := f.env.IndexLimit; limit > 0 {
		room = max(0, limit-limit/16-v.IndexMemory())
	}
	all := f.missing(v, indexes, room)
	f.load(all.first(adjustBytes), indexes, restoreIndex)
	return all.bytes > adjustBytes
}

// restoreIndex reads t's index. If that fails, lookups in t try it, too.
func restoreIndex(t *tree.Table) failure {
	err := t.Reader.LoadIndex()
	return failure{err, base.Lasts(err)}
}
