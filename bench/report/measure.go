package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"

	"github.com/shaledb/shale/internal/benchmark"
	"github.com/shaledb/shale/vfs"
)

// A runner has what both experiments share.
type runner struct {
	effort
	dropAll bool
	data    *benchmark.Dataset
	absent  [][]byte // in random order
	dir     string   // of the stores
	out     io.Writer
}

// sample returns n of the records and n of the absent keys, at most. 0 means all.
func sample(d *benchmark.Dataset, n int) *benchmark.Dataset {
	if n == 0 || n >= len(d.Present) {
		return d
	}
	s := *d
	s.Present, s.Absent = nil, nil
	rng := rand.New(rand.NewPCG(7, 8))
	for _, i := range rng.Perm(len(d.Present))[:n] {
		s.Present = append(s.Present, d.Present[i])
	}
	for _, i := range rng.Perm(len(d.Absent))[:min(n, len(d.Absent))] {
		s.Absent = append(s.Absent, d.Absent[i])
	}
	return &s
}

// misses returns n absent keys at most.
func (r *runner) misses(n int) [][]byte { return r.absent[:min(n, len(r.absent))] }

// measureLevels reads the same data in trees of one level, of two, and so on.
func (r *runner) measureLevels(ctx context.Context) (cells []*cell, err error) {
	bar := benchmark.NewProgress("F1, by number of levels", r.levels)
	defer bar.Done()
	seen := map[int]bool{}
	noCold := false // files can't be dropped from the page cache here
	for levels := 1; levels <= r.levels; levels++ {
		bar.At(levels - 1)
		s, err := recipe{levels: levels, bits: 10}.make(ctx, r.dir, r.data.Present)
		if err != nil {
			return nil, err
		}
		if seen[len(s.levels)] {
			continue // little data makes no deep tree
		}
		seen[len(s.levels)] = true
		for _, w := range []way{{limit: r.limit}, {cold: true, limit: 2 * r.limit, dropAll: r.dropAll}} {
			if w.cold && noCold {
				continue
			}
			n := r.lookups
			if w.cold {
				n = r.coldLookups
			}
			off, on, err := s.compare(ctx, w, r.misses(n))
			if errors.Is(err, vfs.ErrUnsupported) {
				noCold = true
				fmt.Fprintf(r.out, "cold reads left out: %v\n", err)
				continue
			}
			if err != nil {
				return nil, err
			}
			off.X, on.X = float64(len(s.levels)), float64(len(s.levels))
			cells = append(cells, off, on)
		}
		s.remove()
	}
	return cells, nil
}

// measureBits reads the same tree with filters of more and more bits.
func (r *runner) measureBits(ctx context.Context) (cells []*cell, err error) {
	bar := benchmark.NewProgress("F2, by bits a key", len(r.bits))
	defer bar.Done()
	for i, bits := range r.bits {
		bar.At(i)
		s, err := recipe{levels: r.levels, bits: bits}.make(ctx, r.dir, r.data.Present)
		if err != nil {
			return nil, err
		}
		w := way{filters: bits > 0, limit: r.limit}
		n := 2 * r.lookups
		if bits > 10 {
			n *= 4 // false positives are few
		}
		got, m, err := s.pass(ctx, w, r.misses(n))
		s.remove()
		if err != nil {
			return nil, err
		}
		c := s.cell(w)
		c.X = bits
		if err := c.add(got, m); err != nil {
			return nil, err
		}
		cells = append(cells, c)
	}
	return cells, nil
}
