package treepicture

import (
	"bytes"
	"slices"
	"sort"

	"github.com/shaledb/shale/internal/keys"
)

// A scale gives keys their places, from 0 to 1: which share of the store's entries lies before
// them. It knows the places of the bounds of tables.
//
// A small share of the width goes in equal parts to each bound and to each gap between two
// of them, so that what has few entries can be seen and pointed at.
type scale struct {
	bounds [][]byte  // distinct, ascending
	at     []float64 // bound i is from at[2i] to at[2i+1]
}

const (
	// leastShare is the share of the width that bounds and gaps have for being there. No place
	// is wrong by more for that.
	leastShare = 0.02
	// fine is the share of all entries that a table may have between two bounds that it is asked
	// for. Between these its entries count as spread evenly over the bounds.
	fine = 1.0 / 1024
)

// newScale returns the scale for tables of any levels.
func newScale(levels []Level) *scale {
	s := &scale{}
	all := 0.0
	for t := range tables(levels) {
		s.bounds = append(s.bounds, t.Smallest, t.Largest)
		all += float64(t.Entries)
	}
	slices.SortFunc(s.bounds, bytes.Compare)
	s.bounds = slices.CompactFunc(s.bounds, bytes.Equal)
	if len(s.bounds) == 0 {
		return s
	}
	all = max(all, 1)
	own := make([]float64, len(s.bounds))      // entries at each bound
	change := make([]float64, len(s.bounds)+1) // of the entries in a gap, from the one before
	for t := range tables(levels) {
		from, to := s.rank(t.Smallest), s.rank(t.Largest)
		if from == to {
			own[from] += float64(t.Entries)
		} else {
			s.spread(t, change, all, from, to, 0, 1)
		}
	}
	least := leastShare / float64(max(2*len(s.bounds)-1, 1))
	place, inGap := 0.0, 0.0
	for i := range s.bounds {
		s.at = append(s.at, place)
		place += own[i]/all*(1-leastShare) + least
		s.at = append(s.at, place)
		inGap += change[i]
		place += max(inGap, 0)/all*(1-leastShare) + least
	}
	return s
}

// spread adds the entries of t that lie from bound from to bound to, before which the shares
// below and upto of its entries lie.
func (s *scale) spread(t *Table, change []float64, all float64, from, to int, below, upto float64) {
	entries := float64(t.Entries) * (upto - below)
	if to-from == 1 || entries <= fine*all {
		each := entries / float64(to-from)
		change[from] += each
		change[to] -= each
		return
	}
	middle := from + (to-from)/2
	share := min(max(t.before(s.bounds[middle]), below), upto)
	s.spread(t, change, all, from, middle, below, share)
	s.spread(t, change, all, middle, to, share, upto)
}

// before returns about which share of t's entries lies before key.
func (t *Table) before(key []byte) float64 {
	if t.Rank != nil {
		return t.Rank(key)
	}
	return keys.Between(t.Smallest, t.Largest, key)
}

// rank returns how many bounds are below key.
func (s *scale) rank(key []byte) int {
	return sort.Search(len(s.bounds), func(i int) bool { return bytes.Compare(s.bounds[i], key) >= 0 })
}

// span returns where t begins and ends. Requires: t is of the tables that the
// scale was made for.
func (s *scale) span(t *Table) (from, to float64) {
	return s.at[2*s.rank(t.Smallest)], s.at[2*s.rank(t.Largest)+1]
}

// ticks returns the indexes of bounds that are about evenly spread, n+1 at most, and not closer
// to each other than one part in n.
func (s *scale) ticks(n int) (list []int) {
	next := 0.0 // the first place that is far enough from the tick before
	for i := range n + 1 {
		target := max(float64(i)/float64(n), next)
		b := sort.Search(len(s.bounds), func(b int) bool { return s.at[2*b] >= target })
		if b > 0 && s.at[2*b-2] >= next && (b == len(s.bounds) || target-s.at[2*b-2] < s.at[2*b]-target) {
			b-- // the one before is nearer
		}
		if b == len(s.bounds) || s.at[2*b]-target > 0.5/float64(n) && i < n { // a later tick has a better place for it
			continue
		}
		list, next = append(list, b), s.at[2*b]+1/float64(n)-1e-9
	}
	return list
}
