package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/compaction"
	"github.com/shaledb/shale/internal/benchmark"
	"github.com/shaledb/shale/vfs"
)

// A recipe says how to make a store.
type recipe struct {
	levels int     // with one run each
	bits   float64 // of filters; 0: none
}

// A store is closed, so that it can be opened with various options.
type store struct {
	dir    string
	bits   float64 // of its filters
	shape  shale.Metrics
	levels []benchmark.Level // that hold tables
	runs   int
	bytes  int64 // of tables
	keys   int
}

// A maker writes a store, record by record.
type maker struct {
	ctx     context.Context
	db      *shale.DB
	dir     string
	records []benchmark.Record
	order   []int
	next    int
}

// make makes the store in a new folder below parent.
func (r recipe) make(ctx context.Context, parent string, records []benchmark.Record) (*store, error) {
	dir, err := os.MkdirTemp(parent, "store-")
	if err != nil {
		return nil, err
	}
	m := &maker{ctx: ctx, dir: filepath.Join(dir, "db"), records: records, order: rand.New(rand.NewPCG(1, 2)).Perm(len(records))}
	if err := m.tree(r, benchmark.RawBytes(records)); err != nil {
		return nil, fmt.Errorf("make a store: %w", err)
	}
	return m.finished(r)
}

// options returns the options of all stores.
func (r recipe) options(memtable, table int64) shale.Options {
	bits := r.bits
	if bits == 0 {
		bits = -1
	}
	return shale.Options{
		FS:           vfs.Unmapped, // whose reads the system counts
		MemtableSize: max(memtable, 4<<10), TableSize: table, FilterBits: bits, Durability: shale.SyncManual,
	}
}

// tree makes r.levels levels with a run each, beginning with the last. Each has 8 % of
// the keys of the level below it, and level 0 half of that. At no time is there more
// than one possible compaction, so the same records always make the same tree.
func (m *maker) tree(r recipe, raw int64) error {
	n := len(m.order)
	share := 1.0 // of the last level
	upper := make([]float64, 0, r.levels)
	for range r.levels - 2 {
		share /= 10
		upper = append(upper, 0.8*share)
	}
	if r.levels > 1 {
		upper = append(upper, min(0.4*share, 0.04))
	}
	sum := 1.0
	for _, u := range upper {
		sum += u
	}
	last := float64(n) / sum
	opts := r.options(16<<20, max(raw/200, 32<<10))
	opts.CompactionWorkers = -1
	var size int64
	err := m.with(opts, func() error {
		if err := m.put(n - int(last*(sum-1))); err != nil {
			return err
		}
		if err := m.db.Compact(m.ctx, shale.Range{}); err != nil {
			return err
		}
		size = tableBytes(m.db)
		return nil
	})
	if err != nil {
		return err
	}
	for i, u := range upper {
		end := m.next + int(last*u)
		if i == len(upper)-1 {
			return m.with(opts, func() error { return m.parts(n, 1) })
		}
		if err := m.level(opts, end, size); err != nil {
			return err
		}
		size /= 10
	}
	return nil
}

// level makes the level above one of size bytes. So many runs in level 0 are due for
// compaction, and the size of the memtable decides to which level they go.
func (m *maker) level(opts shale.Options, end int, size int64) error {
	if err := m.with(opts, func() error { return m.parts(end, compaction.Level0Runs) }); err != nil {
		return err
	}
	base := size / 10 * 2 // the least size of a level: four memtables
	opts.MemtableSize, opts.CompactionWorkers = max(base/4, 4<<10), 1
	return m.with(opts, func() error { return benchmark.Settle(m.ctx, m.db) })
}

// parts writes the next records, up to number upTo, and flushes after each of n parts.
func (m *maker) parts(upTo, n int) error {
	from := m.next
	for i := range n {
		if err := m.put(from + (upTo-from)*(i+1)/n); err != nil {
			return err
		}
		if err := m.db.Flush(m.ctx); err != nil {
			return err
		}
	}
	return nil
}

func tableBytes(db *shale.DB) (n int64) {
	for _, l := range db.Metrics().Levels {
		n += l.Bytes
	}
	return n
}

// with opens the store for fn.
func (m *maker) with(opts shale.Options, fn func() error) error {
	db, err := shale.Open(m.dir, &opts)
	if err != nil {
		return err
	}
	m.db = db
	if err := fn(); err != nil {
		_ = db.Close() // fn's error says more
		return err
	}
	return db.Close()
}

// put writes the next records, up to number upTo.
func (m *maker) put(upTo int) error {
	for ; m.next < min(upTo, len(m.order)); m.next++ {
		if m.next%1024 == 0 && m.ctx.Err() != nil {
			return m.ctx.Err()
		}
		r := m.records[m.order[m.next]]
		if err := m.db.Put(r.Key, r.Value); err != nil {
			return err
		}
	}
	return nil
}

// finished describes the store.
func (m *maker) finished(r recipe) (*store, error) {
	// Fewer bits than the filters have would limit their memory.
	db, err := shale.Open(m.dir, &shale.Options{FS: vfs.Unmapped, ReadOnly: true, FilterBits: r.bits})
	if err != nil {
		return nil, err
	}
	s := &store{dir: m.dir, bits: r.bits, shape: db.Metrics(), keys: len(m.records)}
	if err := db.Close(); err != nil {
		return nil, err
	}
	s.levels = benchmark.LevelsOf(s.shape)
	for _, l := range s.levels {
		s.runs += l.Runs
		s.bytes += l.Bytes
	}
	return s, nil
}

func (s *store) remove() { _ = os.RemoveAll(filepath.Dir(s.dir)) }
