package compaction

import (
	"bytes"

	"github.com/shaledb/shale/manifest"
)

// LiveBytes estimates how many bytes of v's tables would be left if all of them were
// merged into one run. A table of a run counts as overwriting what older runs hold
// between its first and its last key, but no more than its own size: half of each older
// table that it overlaps in part. What it overwrites is not live. So runs that share no
// keys are live as a whole, and a run that was written twice counts once. Tombstones
// count like puts.
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

// bytesWithin estimates the bytes of tables, all of which overlap t, in t's range.
// They are those of one run, so that only the first and the last can reach beyond it.
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
