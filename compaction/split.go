package compaction

import (
	"bytes"
	"slices"

	"github.com/shaledb/shale/manifest"
)

// minSubRange is the smallest size of a sub-range, as a multiple of the table
// size. Smaller sub-ranges would make more and smaller tables without saving time.
const minSubRange = 2

// SplitRanges cuts the plan's range into at most n parts of about equal work, which
// can be merged in parallel. It returns the user keys at which all parts but the
// first begin, ascending. A part has the keys from its own first key (inclusive) to
// that of the next part (exclusive), so no user key is in two parts. The cuts lie
// at the bounds of input tables, because the sizes of the data on both sides are
// known there. The result is nil if the plan is too small to be cut.
func SplitRanges(p *Plan, n int) [][]byte {
	var tables []*manifest.Table
	for _, in := range p.Inputs {
		tables = append(tables, in.Tables...)
	}
	total := manifest.TotalsOf(tables).Bytes
	if p.tableSize > 0 {
		n = int(min(int64(n), total/(minSubRange*p.tableSize)))
	}
	if n < 2 {
		return nil
	}
	// The tables in the order of their first keys, and in that of their last keys.
	begins, ends := slices.Clone(tables), tables
	slices.SortFunc(begins, func(a, b *manifest.Table) int { return bytes.Compare(a.Smallest, b.Smallest) })
	slices.SortFunc(ends, func(a, b *manifest.Table) int { return bytes.Compare(a.Largest, b.Largest) })
	var cuts [][]byte
	// below estimates how many bytes of the tables belong to keys below key. Of a table
	// that has keys on both sides of it, half of the bytes count.
	below, ended := int64(0), 0
	for i, t := range begins {
		key := t.Smallest
		if i > 0 && !bytes.Equal(key, begins[i-1].Smallest) {
			for ; bytes.Compare(ends[ended].Largest, key) < 0; ended++ {
				below += ends[ended].Size - ends[ended].Size/2
			}
			part := int64(len(cuts) + 1)
			if part == int64(n) {
				break
			}
			if below >= total/int64(n)*part {
				cuts = append(cuts, key)
			}
		}
		below += t.Size / 2
	}
	return cuts
}
