package bundle

import (
	"encoding/binary"

	"github.com/shaledb/shale/bloom"
	"github.com/shaledb/shale/internal/keys"
)

// A run is a sorted list of tables with disjoint key ranges.
type run struct {
	level  int
	tables []table
	bounds keys.Ranges
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
	r.bounds = keys.NewRanges(len(r.tables), r.tables[0].smallest, r.tables[len(r.tables)-1].largest)
	for i := range r.tables {
		r.bounds.Set(i, r.tables[i].smallest, r.tables[i].largest)
	}
}

// find returns the table whose range covers key, or nil.
func (r *run) find(key []byte) *table {
	i := r.bounds.Find(key, r)
	if i < 0 {
		return nil
	}
	return &r.tables[i]
}

// Bounds implements keys.Bounded.
func (r *run) Bounds(i int) (smallest, largest []byte) {
	return r.tables[i].smallest, r.tables[i].largest
}
