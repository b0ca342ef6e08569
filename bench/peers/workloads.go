package main

import "github.com/shaledb/shale/bench/peers/internal/keys"

// A workload is one way to read all stores.
type workload struct {
	name    string // of -workloads
	title   string
	absent  bool // ask for absent keys, else for present ones
	readers int  // at once
}

// A phase opens every store in the same way, warms it up and measures its
// workloads in rounds.
type phase struct {
	name      string
	small     bool // cache, else one for all data
	runs      int  // to have in level 0
	workloads []workload
}

// phases come in an order in which each finds the stores as it needs them: the
// last one writes.
var phases = []phase{
	{name: "settled", workloads: []workload{
		{"missing", "readmissing, cached", true, 1},
		{"random", "readrandom, cached", false, 1},
		{"missing2", "readmissing, cached, 2 readers", true, 2},
	}},
	{name: "settled, cache of 1/16", small: true, workloads: []workload{
		{"small", "readmissing, cache of 1/16", true, 1},
	}},
	{name: "reopened with 8 runs in level 0", runs: 8, workloads: []workload{
		{"levels", "readmissing, cached, 8 runs in level 0", true, 1},
	}},
}

// runEntriesDivisor makes the size of a run of level 0 from that of the store,
// minEntries leaves two for such a run.
const (
	runEntriesDivisor = 500
	minEntries        = 2 * runEntriesDivisor
)

// asked is the phase with the workloads that c asks for.
func (p phase) asked(c *config) phase {
	var workloads []workload
	for _, w := range p.workloads {
		if c.asks(w.name) {
			workloads = append(workloads, w)
		}
	}
	p.workloads = workloads
	return p
}

// lookups is how many keys a round of the workload needs.
func (w workload) lookups(c *config) int { return c.reads * w.readers }

// keysFor makes the keys of a round: the absent ones follow each other by
// number from *next on, so that none is asked for twice while there are more.
func (w workload) keysFor(c *config, s keys.Space, round int, next *uint64) keys.Slab {
	count := w.lookups(c)
	if !w.absent {
		return s.PresentSlab(uint64(round), c.n, count)
	}
	slab := s.AbsentSlab(*next, count)
	*next += uint64(count)
	return slab
}

// mode is how the stores are opened to be read in this phase. The engines that
// keep filters and indexes in the block cache get as much more of it as those
// take, so that all have the same memory.
func (p phase) mode(c *config) mode {
	m := mode{memtable: c.memtable, cache: c.cache, reading: true}
	if p.small {
		m.cache = c.smallCache()
		const indexShare = 128 // an entry of about 32 bytes for a block of 4 KiB
		m.filterCache = int64(c.n)*10/8 + c.dataBytes()/indexShare
	}
	return m
}
