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
	bounds := make([][]byte, 0, len(tables))
	for _, t := range tables {
		if bytes.Compare(t.Smallest, p.smallest) > 0 {
			bounds = append(bounds, t.Smallest)
		}
	}
	slices.SortFunc(bounds, bytes.Compare)
	bounds = slices.CompactFunc(bounds, bytes.Equal)
	var cuts [][]byte
	for _, b := range bounds {
		part := int64(len(cuts) + 1)
		if part < int64(n) && bytesBelow(tables, b) >= total/int64(n)*part {
			cuts = append(cuts, b)
		}
	}
	return cuts
}

// bytesBelow estimates how many bytes of tables belong to keys below b.
// Of a table that has keys on both sides of b, half of the bytes count.
func bytesBelow(tables []*manifest.Table, b []byte) int64 {
	var sum int64
	for _, t := range tables {
		switch {
		case bytes.Compare(t.Largest, b) < 0:
			sum += t.Size
		case bytes.Compare(t.Smallest, b) < 0:
			sum += t.Size / 2
		}
	}
	return sum
}
