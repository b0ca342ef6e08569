package compaction

import (
	"bytes"

	"github.com/shaledb/shale/manifest"
)

// LiveBytes estimates how many bytes would remain
// if all tables of v were merged into one run.
//
// A table is assumed to overwrite all data that older runs hold in its key range, up
// to its own size. Of an older table that overlaps the range only in part, half of the
// bytes count. What is overwritten is not live. So runs that share no keys count as a
// whole, and data that was written twice counts once. Tombstones count like puts.
func LiveBytes(v *manifest.Version) int64 {
	var runs []*manifest.Run // newest first
	for level := range v.Levels {
		for i := range v.Levels[level].Runs {
			runs = append(runs, &v.Levels[level].Runs[i])
		}
	}
	live := int64(0)
	for i, run := range runs {
		for _, t := range run.Tables {
			under := int64(0)
			for _, older := range runs[i+1:] {
				if under >= t.Size {
					break
				}
				under += bytesWithin(older.Overlaps(t.Smallest, t.Largest), t)
			}
			live += t.Size - min(under, t.Size)
		}
	}
	return live
}

// bytesWithin estimates how many bytes of tables lie in t's key
// range. Requires: they are tables of one run that all overlap
// t, so only the first and the last can reach beyond its range.
func bytesWithin(tables []*manifest.Table, t *manifest.Table) int64 {
	if len(tables) == 0 {
		return 0
	}
	sum := manifest.TotalsOf(tables).Bytes
	first, last := tables[0], tables[len(tables)-1]
	before, behind := bytes.Compare(first.Smallest, t.Smallest) < 0, bytes.Compare(last.Largest, t.Largest) > 0
	if before {
		sum -= first.Size / 2
	}
	if behind && !(before && first == last) {
		sum -= last.Size / 2
	}
	return sum
}
