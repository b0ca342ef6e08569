package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/internal/benchmark"
	"github.com/shaledb/shale/vfs"
)

// A runner has what the experiments share.
type runner struct {
	effort
	c       config
	data    *benchmark.Dataset
	present [][]byte // in random order, as absent is
	absent  [][]byte
	dir     string
	trees   map[int]*store // with 10 bits a key, by number of levels
	res     *results
	noCold  bool
	current experiment
	bar     *benchmark.Progress
	before  int // weights of the experiments that are done
}

// some returns the values of an axis that are measured: all, or the last ones.
func some[T any](r *runner, all []T) []T {
	if r.points == 0 {
		return all
	}
	return all[len(all)-min(r.points, len(all)):]
}

// step shows that i of n parts of the current experiment are done.
func (r *runner) step(i, n int) {
	r.bar.What = r.current.name + " " + r.current.what
	r.bar.At(r.before*1000 + r.current.weight*1000*i/n)
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

// tree returns the store with that number of levels and 10 bits a key. It makes each once.
func (r *runner) tree(ctx context.Context, levels int) (*store, error) {
	if s := r.trees[levels]; s != nil {
		return s, nil
	}
	s, err := recipe{levels: levels, bits: 10}.make(ctx, r.dir, r.data.Present)
	if err == nil {
		r.trees[levels] = s
	}
	return s, err
}

// keep adds cells to a figure.
func (r *runner) keep(figure string, x float64, cells ...*cell) {
	for _, c := range cells {
		c.Figure, c.X = figure, x
		r.res.Cells = append(r.res.Cells, c)
	}
}

// misses returns n absent keys at most.
func (r *runner) misses(n int) stream { return stream{keys: r.absent[:min(n, len(r.absent))]} }

// cold runs fn. If files can't be dropped from the page cache here, it notes that once
// and skips fn after that.
func (r *runner) cold(fn func() error) error {
	if r.noCold {
		return nil
	}
	err := fn()
	if errors.Is(err, vfs.ErrUnsupported) {
		r.noCold = true
		note := fmt.Sprintf("cold reads left out: %v", err)
		if !slices.Contains(r.res.Notes, note) {
			r.res.Notes = append(r.res.Notes, note)
		}
		return nil
	}
	return err
}

// mixture returns n lookups in random order, of which the given share finds its key. It
// also returns n lookups of other keys to warm up with.
func (r *runner) mixture(n int, hits float64) (warmUp, q stream) {
	n = min(n, len(r.present)/2, len(r.absent)/2)
	h := int(hits * float64(n))
	rng := rand.New(rand.NewPCG(9, 10))
	mix := func(present, absent [][]byte) stream {
		var s stream
		for _, p := range rng.Perm(len(present) + len(absent)) {
			if p < len(present) {
				s.keys, s.found = append(s.keys, present[p]), append(s.found, true)
			} else {
				s.keys, s.found = append(s.keys, absent[p-len(present)]), append(s.found, false)
			}
		}
		return s
	}
	return mix(r.present[:h], r.absent[:n-h]), mix(r.present[h:2*h], r.absent[n-h:2*(n-h)])
}

// cacheNeed returns how much of the block cache all blocks of s take.
func cacheNeed(s *store) (int64, error) {
	db, err := shale.Open(s.dir, &shale.Options{FS: vfs.Unmapped, ReadOnly: true, CacheSize: 2*s.raw + 64<<20})
	if err != nil {
		return 0, err
	}
	defer db.Close()
	for _, err := range db.Scan(shale.Range{}) {
		if err != nil {
			return 0, err
		}
	}
	return max(db.Metrics().CacheMemory, 1<<16), nil
}

// outside returns n keys that are greater than all of the records.
func outside(records []benchmark.Record, n int) stream {
	var last []byte
	for _, r := range records {
		if bytes.Compare(r.Key, last) > 0 {
			last = r.Key
		}
	}
	var q stream
	for i := range n {
		q.keys = append(q.keys, fmt.Appendf(nil, "%s%09d", last, i))
	}
	return q
}
