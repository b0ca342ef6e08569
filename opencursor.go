package shale

import (
	"sync"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/iter"
	"github.com/shaledb/shale/internal/tree"
	"github.com/shaledb/shale/memtable"
	"github.com/shaledb/shale/sstable"
)

var cursors = sync.Pool{New: func() any { return new(cursor) }}

// openCursor returns a cursor over the entries of r as of seq, or nil if the
// store is closed.
func (db *DB) openCursor(r Range, seq base.Seq) *cursor {
	v := db.acquireAll()
	if v == nil {
		return nil
	}
	if seq == latestSeq {
		seq = db.commits.Visible() // after the view: see view
	}
	db.counters.iterators.Add(1)
	c := cursors.Get().(*cursor)
	c.db, c.view, c.seq = db, v, seq
	c.position, c.backward = beforeFirst, false
	c.bound(r)
	c.open(v)
	return c
}

// bound copies r into the cursor's own memory.
func (c *cursor) bound(r Range) {
	n := len(r.Lower)
	c.bounds = append(append(c.bounds[:0], r.Lower...), r.Upper...)
	if c.bounds == nil {
		c.bounds = []byte{} // for an upper bound that is empty, and not nil
	}
	c.rng = Range{Lower: c.bounds[:n:n], Reverse: r.Reverse, KeysOnly: r.KeysOnly, Limit: r.Limit}
	if r.Upper != nil {
		c.rng.Upper = c.bounds[n:]
	}
}

// open makes src of what in v may hold keys of the range, newest first.
func (c *cursor) open(v *view) {
	c.sources = c.sources[:0]
	if !c.rng.empty() {
		// What an empty memtable takes from now on is newer than seq.
		if !v.mem.Empty() {
			c.addMemtable(v.mem)
		}
		for _, imm := range v.imms {
			c.addMemtable(imm.mem)
		}
		c.addRuns(v.Runs)
	}
	if len(c.sources) == 1 {
		c.src = c.sources[0]
		return
	}
	c.merging.Reset(c.sources)
	c.src = &c.merging
}

func (c *cursor) addMemtable(m *memtable.Memtable) {
	if c.nmems == len(c.mems) {
		c.mems = append(c.mems, new(memtable.Iterator))
	}
	it := c.mems[c.nmems]
	c.nmems++
	it.Reset(m)
	c.sources = append(c.sources, it)
}

func (c *cursor) addRuns(runs []*tree.Run) {
	p := prefixProbe{rng: c.rng}
	young := 0
	for _, run := range runs {
		if c.nruns == len(c.runs) {
			c.runs = append(c.runs, new(runSource))
		}
		s := c.runs[c.nruns]
		if s.tables = p.keep(run.Overlapping(c.rng.Lower, c.rng.Upper), &s.kept); len(s.tables) == 0 {
			continue
		}
		c.nruns++
		if run.Level == 0 {
			young++
		}
		s.concat.Reset(len(s.tables), s)
		c.sources = append(c.sources, &s.concat)
	}
	c.wasted = max(0, min(young, c.nruns-1))
	c.db.counters.prefixNegative.Add(p.negatives)
}

// A runSource is a run's part of a cursor.
type runSource struct {
	concat iter.Concat
	tables []*tree.Table
	kept   []*tree.Table    // where tables lie if they are not the run's own
	table  sstable.Iterator // over the open one
}

// Bounds implements iter.ConcatSource.
func (s *runSource) Bounds(i int) (smallest, largest []byte) {
	return s.tables[i].Meta.Smallest, s.tables[i].Meta.Largest
}

// Open implements iter.ConcatSource.
func (s *runSource) Open(i int) (base.Iterator, error) {
	s.table.Reset(s.tables[i].Reader, nil, sstable.IterOptions{})
	return &s.table, nil
}

// maxKeptBuffer is how large a value's buffer may be to stay with a pooled cursor.
const maxKeptBuffer = 64 << 10

// close releases what the cursor holds and gives it back to the pool. Nothing
// of the store stays reachable from there.
func (c *cursor) close() error {
	if c.seeks > 0 {
		c.creditSeeks()
	}
	err := c.src.Close()
	for _, s := range c.runs[:c.nruns] {
		s.tables = nil
		clear(s.kept)
	}
	c.db.releaseAll(c.view)
	c.db.counters.iterators.Add(-1)
	if cap(c.valueBuf) > maxKeptBuffer {
		c.valueBuf = nil
	}
	clear(c.sources)
	c.db, c.view, c.src, c.err, c.kv, c.value = nil, nil, nil, nil, nil, nil
	c.key, c.nmems, c.nruns, c.wasted = c.key[:0], 0, 0, 0
	cursors.Put(c)
	return err
}
