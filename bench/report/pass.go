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

// A way is how a store is read. There is no block cache: every block that is looked into
// is read.
type way struct {
	filters bool
	cold    bool // the files are not in the page cache
	limit   time.Duration
	dropAll bool // of the system's caches, too
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

// pass looks up the keys, which are absent, once, and checks the answers and the counts.
func (s *store) pass(ctx context.Context, w way, keys [][]byte) (benchmark.Counts, shale.Metrics, error) {
	none, noMetrics := benchmark.Counts{}, shale.Metrics{}
	opts := shale.Options{FS: vfs.Unmapped, ReadOnly: true, CacheSize: -1, FilterBits: s.bits}
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
	if !w.cold {
		if err := readAll(ctx, db); err != nil {
			return none, noMetrics, err
		}
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
	for lookups < len(keys) && took < w.limit {
		if w.cold {
			if err := w.drop(s.dir); err != nil {
				return none, noMetrics, err
			}
		}
		if err := ctx.Err(); err != nil {
			return none, noMetrics, err
		}
		part := keys[lookups:min(lookups+batch, len(keys))]
		begin := time.Now()
		if err := ask(db, part); err != nil {
			return none, noMetrics, err
		}
		took += time.Since(begin)
		lookups += len(part)
	}
	counts, m, err := counter.Stop(lookups, took, true)
	if err != nil {
		return none, noMetrics, err
	}
	return counts, m, db.Close()
}

// readAll fills the page cache.
func readAll(ctx context.Context, db *shale.DB) error {
	n := 0
	for _, err := range db.Scan(shale.Range{}) {
		if n++; n%4096 == 0 && err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// ask looks up keys, none of which must be there.
func ask(db *shale.DB, keys [][]byte) error {
	for _, key := range keys {
		found, err := db.Has(key)
		if err != nil {
			return err
		}
		if found {
			return fmt.Errorf("wrong answer: Has(%q) = true", key)
		}
	}
	return nil
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
// change of the machine's speed affects both alike. The two passes of each must count the
// same.
func (s *store) compare(ctx context.Context, w way, keys [][]byte) (off, on *cell, err error) {
	for _, filters := range []bool{false, true, true, false} {
		w.filters = filters
		c := &off
		if filters {
			c = &on
		}
		if *c == nil {
			*c = s.cell(w)
		}
		r, m, err := s.pass(ctx, w, keys)
		if err != nil {
			return nil, nil, fmt.Errorf("filters %s: %w", word(filters, filterWords), err)
		}
		if err := (*c).add(r, m); err != nil {
			return nil, nil, err
		}
	}
	return off, on, nil
}
