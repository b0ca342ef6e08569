package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"time"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/internal/benchmark"
	"github.com/shaledb/shale/vfs"
)

// A stream has the keys to look up, in order. found says which of them are present; if
// it is nil, all are absent.
type stream struct {
	keys  [][]byte
	found []bool
}

func (q stream) part(from, to int) stream {
	p := stream{keys: q.keys[from:to]}
	if q.found != nil {
		p.found = q.found[from:to]
	}
	return p
}

// A way is how a store is read.
type way struct {
	filters bool
	cache   int64 // bytes of the block cache; negative: none
	cold    bool  // the files are not in the page cache
	warmUp  stream
	scan    bool // warm up with a scan of the whole store
	limit   time.Duration
	dropAll bool
	timed   *[]int64 // if not nil, gets the nanoseconds of each lookup
}

// randomFS opens files so that the system reads ahead nothing.
type randomFS struct{ vfs.FS }

func (fs randomFS) Open(name string) (vfs.File, error) {
	f, err := fs.FS.Open(name)
	if err != nil {
		return nil, err
	}
	if err := vfs.DropCache(f); err != nil && !errors.Is(err, vfs.ErrUnsupported) {
		_ = f.Close() // the first error says more
		return nil, err
	}
	return f, nil
}

// pass looks up the keys of q once, and checks the answers and the counts.
func (s *store) pass(ctx context.Context, w way, q stream) (benchmark.Counts, shale.Metrics, error) {
	none, noMetrics := benchmark.Counts{}, shale.Metrics{}
	opts := shale.Options{FS: vfs.Unmapped, ReadOnly: true, CacheSize: w.cache, FilterBits: s.bits}
	if !w.filters {
		opts.FilterBits = -1
	}
	if w.cold {
		opts.FS = randomFS{vfs.Unmapped}
	}
	db, err := shale.Open(s.dir, &opts)
	if err != nil {
		return none, noMetrics, err
	}
	defer db.Close()
	for db.Metrics().Loading { // Open leaves most filters of a large store for later
		time.Sleep(10 * time.Millisecond)
	}
	if have := db.Metrics().FilterMemory; w.filters && have < s.shape.FilterMemory {
		return none, noMetrics, fmt.Errorf("%d bytes of filters are in memory, and there are %d", have, s.shape.FilterMemory)
	}
	if err := w.prepare(ctx, db); err != nil {
		return none, noMetrics, err
	}
	runtime.GC()
	lookups, took := 0, time.Duration(0)
	counter := benchmark.StartCounting(db)
	batch := 1000
	if w.cold {
		// Batches are so small that a lookup rarely finds a page that another
		// one has read.
		batch = min(max(int(s.bytes/4096)/20/max(s.runs, 1), 5), batch)
	}
	for lookups < len(q.keys) && took < w.limit {
		if w.cold {
			if err := w.drop(s.dir); err != nil {
				return none, noMetrics, err
			}
		}
		if err := ctx.Err(); err != nil {
			return none, noMetrics, err
		}
		begin := time.Now()
		n, err := w.ask(db, q.part(lookups, min(lookups+batch, len(q.keys))))
		if err != nil {
			return none, noMetrics, err
		}
		took += time.Since(begin)
		lookups += n
	}
	counts, m, err := counter.Stop(lookups, took, q.found == nil)
	if err != nil {
		return none, noMetrics, err
	}
	return counts, m, db.Close()
}

// prepare fills the caches as w says.
func (w way) prepare(ctx context.Context, db *shale.DB) error {
	if w.cold {
		return nil // ask comes after drop, for each batch
	}
	if w.scan || w.cache < 0 { // without a block cache this fills the page cache
		n := 0
		for _, err := range db.Scan(shale.Range{}) {
			if n++; n%4096 == 0 && err == nil {
				err = ctx.Err()
			}
			if err != nil {
				return err
			}
		}
	}
	w.timed = nil
	for from := 0; from < len(w.warmUp.keys); from += 1000 {
		if err := ctx.Err(); err != nil {
			return err
		}
		if _, err := w.ask(db, w.warmUp.part(from, min(from+1000, len(w.warmUp.keys)))); err != nil {
			return err
		}
	}
	return nil
}

// ask looks up all keys of q, and checks the answers.
func (w way) ask(db *shale.DB, q stream) (int, error) {
	for i, key := range q.keys {
		var begin time.Time
		if w.timed != nil {
			begin = time.Now()
		}
		found, err := db.Has(key)
		if w.timed != nil {
			*w.timed = append(*w.timed, int64(time.Since(begin)))
		}
		if err != nil {
			return i, err
		}
		if want := q.found != nil && q.found[i]; found != want {
			return i, fmt.Errorf("wrong answer: Has(%q) = %v", key, found)
		}
	}
	return len(q.keys), nil
}

// drop takes the store's tables out of the page cache, or everything.
func (w way) drop(dir string) error {
	if w.dropAll {
		if err := os.WriteFile("/proc/sys/vm/drop_caches", []byte("3"), 0); err != nil {
			return fmt.Errorf("-drop-caches: %w", err)
		}
	}
	return benchmark.DropCaches(dir)
}

// compare reads the store with filters ignored, on, on, and ignored again. So a slow
// change of the machine's speed affects both alike. Without a block cache, the two
// passes of each must count the same.
func (s *store) compare(ctx context.Context, w way, q stream) (off, on *cell, err error) {
	off, on = s.cell(w, false), s.cell(w, true)
	for _, filters := range []bool{false, true, true, false} {
		w.filters = filters
		c := off
		if filters {
			c = on
		}
		r, m, err := s.pass(ctx, w, q)
		if err != nil {
			return nil, nil, fmt.Errorf("filters %s: %w", words["filters"][int(bit(filters))], err)
		}
		if err := c.add(r, m, w.cache < 0); err != nil {
			return nil, nil, err
		}
	}
	return off, on, nil
}
