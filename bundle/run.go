package bundle

import (
	"bytes"
	"encoding/binary"
	"sort"

	"github.com/shaledb/shale/bloom"
)

// A run is a sorted list of tables with disjoint key ranges, searched as the
// store's own runs are: by integers in flat arrays, and by whole keys only where
// eight bytes do not decide. Whole keys alone take as long among one table or
// two, twice as long among 64 (130 ns, not 60) and more.
type run struct {
	level  int
	tables []table

	prefix []byte // what all bounds begin with
	// largest[i] and smallest[i] are the first eight bytes after prefix of
	// table i's bounds, big-endian, padded with zeros.
	largest, smallest []uint64
}

// A table is a filter with the range of keys that it speaks for.
type table struct {
	filter            *bloom.Static // nil: maybe
	hasher            int           // of filter, in Bundle.hashers; -1: none of these
	smallest, largest []byte
	keys              uint64
}

// decodeRun reads the head of a run in the directory, and returns what follows:
//
//	0     4
//	|level|tables|
//
// There is room for so many tables in it.
func decodeRun(dir []byte) (level, tables int, rest []byte, err error) {
	if len(dir) < runLen {
		return 0, 0, nil, errShort
	}
	l, n := binary.LittleEndian.Uint32(dir), binary.LittleEndian.Uint32(dir[4:])
	dir = dir[runLen:]
	if l > maxLevel || n == 0 || uint64(n) > uint64(len(dir)/tableLen) {
		return 0, 0, nil, damage("a run of %d tables in level %d", n, l)
	}
	return int(l), int(n), dir, nil
}

func (r *run) init(level, tables int) {
	r.level, r.tables = level, make([]table, tables)
}

// layOut fills what find looks at. Requires: the tables are in order.
func (r *run) layOut() {
	n := len(r.tables)
	first, last := r.tables[0].smallest, r.tables[n-1].largest
	r.prefix = first[:commonPrefix(first, last)]
	words := make([]uint64, 2*n)
	r.largest, r.smallest = words[:n:n], words[n:]
	for i := range r.tables {
		r.largest[i] = keyWord(r.tables[i].largest[len(r.prefix):])
		r.smallest[i] = keyWord(r.tables[i].smallest[len(r.prefix):])
	}
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
		lo += sort.Search(len(r.largest)-lo, func(i int) bool {
			return r.largest[lo+i] != word || bytes.Compare(r.tables[lo+i].largest, key) >= 0
		})
	}
	if lo == len(r.largest) || r.smallest[lo] > word {
		return nil
	}
	t := &r.tables[lo]
	if r.smallest[lo] == word && bytes.Compare(t.smallest, key) > 0 {
		return nil
	}
	return t
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
