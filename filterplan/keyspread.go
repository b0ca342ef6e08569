package filterplan

import (
	"bytes"
	"sort"
)

// A KeyRun is a run as a KeySpread sees it: tables in the order of their keys, whose
// ranges do not overlap.
type KeyRun interface {
	// NumTables returns the number of tables.
	NumTables() int
	// KeyRange returns the smallest and the largest key of table i, and how many keys
	// it has.
	KeyRange(i int) (smallest, largest []byte, keys uint64)
	// Rank returns about which part of the keys of table i comes before key, which
	// lies in the range of the table.
	Rank(i int, key []byte) float64
}

// A KeySpread says how the keys of a store are spread over the range of all keys. It
// knows this from the largest run, which has most of them. It assumes that lookups
// ask for keys that are spread alike. Then the ranges of the tables of another run
// show which share of all lookups asks that run.
type KeySpread struct {
	run    KeyRun    // the largest; nil if there is none
	before []float64 // the keys in all tables before each one; the last number is that of all keys
}

// NewKeySpread returns the spread of the keys of a store with these runs.
func NewKeySpread(runs []KeyRun) KeySpread {
	var s KeySpread
	most := 0.0
	for _, r := range runs {
		all := 0.0
		for i := range r.NumTables() {
			all += keysOf(r, i)
		}
		if all > most {
			s.run, most = r, all
		}
	}
	if s.run == nil {
		return s
	}
	s.before = make([]float64, 1, s.run.NumTables()+1)
	for i := range s.run.NumTables() {
		s.before = append(s.before, s.before[i]+keysOf(s.run, i))
	}
	return s
}

// keysOf returns how many keys a table has, at least one.
func keysOf(r KeyRun, i int) float64 {
	_, _, keys := r.KeyRange(i)
	return float64(max(keys, 1))
}

// Share returns about which share of the keys lies in the ranges of r's tables.
func (s KeySpread) Share(r KeyRun) float64 {
	if s.run == nil || r == s.run {
		return 1
	}
	sum := 0.0
	for i := range r.NumTables() {
		smallest, largest, _ := r.KeyRange(i)
		sum += s.rank(largest) - s.rank(smallest)
	}
	return min(1, sum/s.before[len(s.before)-1])
}

// rank returns about how many keys of the largest run come before key, or are key.
func (s KeySpread) rank(key []byte) float64 {
	n := s.run.NumTables()
	i := sort.Search(n, func(i int) bool {
		_, largest, _ := s.run.KeyRange(i)
		return bytes.Compare(largest, key) > 0
	})
	if i == n {
		return s.before[i]
	}
	if smallest, _, _ := s.run.KeyRange(i); bytes.Compare(smallest, key) >= 0 {
		return s.before[i]
	}
	return s.before[i] + s.run.Rank(i, key)*(s.before[i+1]-s.before[i])
}
