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
	// NumKeys returns the number of keys of all tables.
	NumKeys() uint64
	// KeyRange returns the smallest and the largest key of table i, and how many keys
	// it has.
	KeyRange(i int) (smallest, largest []byte, keys uint64)
	// From returns how many tables end before key.
	From(key []byte) int
	// Rank returns about which part of the keys of table i comes before key, which
	// lies in the range of the table.
	Rank(i int, key []byte) float64
}

// A KeySpread says how the keys of a store are spread over the range of all keys. It
// knows this from the largest run, which has most of them. It assumes that lookups
// ask for keys that are spread alike. Then the ranges of the tables of another run
// show which share of all lookups asks that run.
//
// Of a long run it looks at maxSamples tables only, and takes those between two of them to
// have as many keys as the first of the two. So it takes the same time in a store of any
// size.
type KeySpread struct {
	run    KeyRun    // the largest; nil if there is none
	places []int     // tables of run that were looked at, in order; the last number is that of all tables
	before []float64 // about how many keys are in all tables before each of places
}

// maxSamples is how many tables of a run a KeySpread looks at, at most. Tables have about
// the same size, so with 64 of them a share is wrong by 1/64 at most where a range begins or ends.
const maxSamples = 64

// place returns the index of sample i, of maxSamples, among n tables.
func place(i, n int) int { return int(int64(i) * int64(n) / maxSamples) }

// NewKeySpread returns the spread of the keys of a store with these runs.
func NewKeySpread(runs []KeyRun) KeySpread {
	var s KeySpread
	most := uint64(0)
	for _, r := range runs {
		// A table that does not say how many keys it has counts for one.
		if all := max(r.NumKeys(), uint64(r.NumTables())); all > most {
			s.run, most = r, all
		}
	}
	if s.run == nil {
		return s
	}
	n := s.run.NumTables()
	samples := min(n, maxSamples)
	sum := 0.0
	for i := range samples {
		from, to := i, i+1
		if n > maxSamples {
			from, to = place(i, n), place(i+1, n)
		}
		s.places, s.before = append(s.places, from), append(s.before, sum)
		sum += float64(to-from) * keysOf(s.run, from)
	}
	s.places, s.before = append(s.places, n), append(s.before, sum)
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
	n := r.NumTables()
	sum := 0.0
	for i := range min(n, maxSamples) {
		weight := 1.0
		if n > maxSamples {
			weight = float64(n) / maxSamples
			i = place(i, n)
		}
		smallest, largest, _ := r.KeyRange(i)
		sum += weight * (s.rank(largest) - s.rank(smallest))
	}
	return min(1, sum/s.before[len(s.before)-1])
}

// rank returns about how many keys of the largest run come before key, or are key.
func (s KeySpread) rank(key []byte) float64 {
	n := s.run.NumTables()
	i := s.run.From(key)
	if i < n {
		if _, largest, _ := s.run.KeyRange(i); bytes.Equal(largest, key) {
			i++
		}
	}
	if i == n {
		return s.before[len(s.before)-1]
	}
	// Table i is between places j and j+1.
	j := sort.SearchInts(s.places, i+1) - 1
	each := (s.before[j+1] - s.before[j]) / float64(s.places[j+1]-s.places[j])
	before := s.before[j] + float64(i-s.places[j])*each
	if smallest, _, _ := s.run.KeyRange(i); bytes.Compare(smallest, key) >= 0 {
		return before
	}
	return before + s.run.Rank(i, key)*each
}
