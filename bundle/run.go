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

// A table is a filter, and the range of the keys that it was made of.
type table struct {
	filter            *bloom.Static // nil: every key in the range is answered with maybe
	hasher            int           // index of filter's function in Bundle.hashers; -1: not there
	smallest, largest []byte
	keys              uint64
}

// decodeRun decodes the beginning of a run in the directory, and returns the
// bytes that follow:
//
//	0     4
//	|level|tables|
//
// It has checked that these bytes are enough for the tables, so that the caller
// may allocate them.
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

// layOut fills bounds, in which find searches. Requires: the tables are complete
// and in order.
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
