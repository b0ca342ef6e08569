package shale

import (
	"bytes"
	"encoding/binary"
	"sort"
	"sync/atomic"

	"github.com/shaledb/shale/manifest"
)

// A run is a sorted list of tables with disjoint key ranges, laid out for
// point lookups: the bounds are integers in flat arrays, so that finding the
// one table that may hold a key touches few cache lines and compares whole
// keys only where eight bytes do not decide. A run is immutable.
type run struct {
	level  int
	nth    int    // 0 is the newest run of its level
	id     uint64 // in the manifest
	tables []*table
	metas  []*manifest.Table // what the manifest says of them, sidecars included
	keys   uint64            // in all tables

	// refs counts the versions that have the run. Guarded by the mu of the tree.
	refs int
	// filters is what is known of the resident filters, nil or out of date
	// unless its epoch is that of the store.
	filters atomic.Pointer[filterSum]

	prefix []byte // what all bounds begin with
	// largest[i] and smallest[i] are the first eight bytes after prefix of
	// table i's bounds, big-endian, padded with zeros.
	largest, smallest []uint64
}

// layout makes a run without its n tables, which put places.
func layout(level, nth int, first, last []byte, n int) *run {
	words := make([]uint64, 2*n)
	return &run{
		level: level, nth: nth,
		tables:  make([]*table, n),
		prefix:  first[:commonPrefix(first, last)],
		largest: words[:n:n], smallest: words[n:],
	}
}

// put makes t table i.
func (r *run) put(i int, t *table) {
	r.tables[i] = t
	r.largest[i] = keyWord(t.meta.Largest[len(r.prefix):])
	r.smallest[i] = keyWord(t.meta.Smallest[len(r.prefix):])
}

// find returns the table whose range covers key, or nil.
func (r *run) find(key []byte) *table {
	p := len(r.prefix)
	if len(key) < p || (p > 0 && !bytes.Equal(key[:p], r.prefix)) {
		return nil // all bounds begin with prefix, so key lies outside them
	}
	word := keyWord(key[p:])
	lo, hi := 0, len(r.largest)
	for lo < hi {
		mid := int(uint(lo+hi) >> 1)
		if r.largest[mid] < word {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	// Tables before lo end before key. Where words are equal, keys decide.
	if lo < len(r.largest) && r.largest[lo] == word {
		lo = r.findEqual(lo, word, key)
	}
	if lo == len(r.largest) || r.smallest[lo] > word {
		return nil
	}
	t := r.tables[lo]
	if r.smallest[lo] == word && bytes.Compare(t.meta.Smallest, key) > 0 {
		return nil
	}
	return t
}

// findEqual goes on from table lo, the first with this word, to the first that
// does not end before key. By halves too: with a long common beginning that
// not all keys of the run share, all its tables may have one word.
func (r *run) findEqual(lo int, word uint64, key []byte) int {
	return lo + sort.Search(len(r.largest)-lo, func(i int) bool {
		return r.largest[lo+i] != word || bytes.Compare(r.tables[lo+i].meta.Largest, key) >= 0
	})
}

// keyWord returns the first eight bytes of key as a big-endian integer, short
// keys padded with zeros. If a < b then keyWord(a) <= keyWord(b).
func keyWord(key []byte) uint64 {
	if len(key) >= 8 {
		return binary.BigEndian.Uint64(key)
	}
	var w uint64
	for i, c := range key {
		w |= uint64(c) << (56 - 8*i)
	}
	return w
}

// commonPrefix returns the length of what a and b begin with alike.
func commonPrefix(a, b []byte) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}
