package treepicture

import (
	"bytes"
	"slices"
	"sort"
)

// A scale gives keys their places, from 0 to 1.
//
// The bounds of the tables cut the keys into parts: each bound, and what lies
// between two of them. A part is as wide as the entries that tables have in
// it, if those of a table are spread evenly over its parts, and has a least
// width, so that each table can be seen.
type scale struct {
	bounds [][]byte  // distinct, ascending
	at     []float64 // part 2i is bound i, part 2i+1 what is behind it; at[p] is where part p begins
}

// leastPart is the share of the width that all parts together have at least.
const leastPart = 0.1

// newScale returns the scale for tables of any levels.
func newScale(levels []Level) *scale {
	s := &scale{}
	for _, l := range levels {
		for i := range l.Tables {
			s.bounds = append(s.bounds, l.Tables[i].Smallest, l.Tables[i].Largest)
		}
	}
	slices.SortFunc(s.bounds, bytes.Compare)
	s.bounds = slices.CompactFunc(s.bounds, bytes.Equal)
	if len(s.bounds) == 0 {
		return s
	}
	parts := 2*len(s.bounds) - 1
	change := make([]float64, parts+1) // of the density, from a part to the next
	for _, l := range levels {
		for i := range l.Tables {
			t := &l.Tables[i]
			from, to := s.parts(t)
			density := float64(t.Entries) / float64(to-from)
			change[from] += density
			change[to] -= density
		}
	}
	s.at = make([]float64, parts+1)
	density, total := 0.0, 0.0
	for p := range parts {
		density += change[p]
		s.at[p+1] = max(density, 0)
		total += s.at[p+1]
	}
	least := (total + 1) * leastPart / float64(parts)
	total += least * float64(parts)
	for p := range parts {
		s.at[p+1] = s.at[p] + (s.at[p+1]+least)/total
	}
	return s
}

// parts returns the first part that t covers, and the one behind its last.
func (s *scale) parts(t *Table) (from, to int) {
	return 2 * s.rank(t.Smallest), 2*s.rank(t.Largest) + 1
}

// rank returns how many bounds are below key.
func (s *scale) rank(key []byte) int {
	return sort.Search(len(s.bounds), func(i int) bool { return bytes.Compare(s.bounds[i], key) >= 0 })
}

// span returns where t begins and ends. Requires: t is of the tables that the
// scale was made for.
func (s *scale) span(t *Table) (from, to float64) {
	f, e := s.parts(t)
	return s.at[f], s.at[e]
}

// keyAt returns the last bound that does not lie behind a place, nil if there
// are no tables.
func (s *scale) keyAt(place float64) []byte {
	if len(s.bounds) == 0 {
		return nil
	}
	p := sort.SearchFloat64s(s.at, place) - 1
	return s.bounds[min(max(p, 0)/2, len(s.bounds)-1)]
}
