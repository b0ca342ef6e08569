package main

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime/debug"
	"slices"
	"time"

	"github.com/shaledb/shale/bloom"
	"github.com/shaledb/shale/internal/benchmark"
)

const noCache = -1 // without a block cache, every block that is looked into is read

// measureLevels is F1: the same data in trees of one level, of two, and so on.
func measureLevels(ctx context.Context, r *runner) error {
	seen := map[int]bool{}
	for levels := 1; levels <= r.levels; levels++ {
		r.step(3*(levels-1), 3*r.levels)
		s, err := r.tree(ctx, levels)
		if err != nil {
			return err
		}
		if seen[len(s.levels)] {
			continue // little data makes no deep tree
		}
		seen[len(s.levels)] = true
		read := func(w way, n int) error {
			off, on, err := s.compare(ctx, w, r.misses(n))
			if err == nil {
				r.keep("F1", float64(len(s.levels)), off, on)
			}
			return err
		}
		r.step(3*levels-2, 3*r.levels)
		if err := read(way{cache: noCache, limit: r.limit}, r.lookups); err != nil {
			return err
		}
		r.step(3*levels-1, 3*r.levels)
		err = r.cold(func() error {
			return read(way{cache: noCache, cold: true, limit: 2 * r.limit, dropAll: r.c.dropAll}, r.coldLookups)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// measureBits is F2: the same tree with filters of more and more bits.
func measureBits(ctx context.Context, r *runner) error {
	all := some(r, []float64{0, 2, 4, 6, 8, 10, 12, 16, 20})
	for i, bits := range all {
		r.step(2*i, 2*len(all))
		s, err := recipe{levels: r.levels, bits: bits}.make(ctx, r.dir, r.data.Present)
		if err != nil {
			return err
		}
		r.step(2*i+1, 2*len(all))
		w := way{cache: noCache, filters: bits > 0, limit: r.limit}
		n := 2 * r.lookups
		if bits > 10 {
			n *= 4 // false positives are few
		}
		got, m, err := s.pass(ctx, w, r.misses(n))
		s.remove()
		if err != nil {
			return err
		}
		c := s.cell(w, w.filters)
		if err := c.add(got, m, false); err != nil {
			return err
		}
		r.keep("F2", bits, c)
	}
	return nil
}

// measureLatency is F3: the time of each lookup.
func measureLatency(ctx context.Context, r *runner) error {
	s, err := r.tree(ctx, r.levels)
	if err != nil {
		return err
	}
	for i, cold := range []bool{false, true} {
		measure := func() error {
			cells, times := [2]*cell{}, [2][]int64{}
			for pass, filters := range []int{0, 1, 1, 0} {
				r.step(4*i+pass, 8)
				w := way{filters: filters == 1, cache: noCache, cold: cold, limit: r.limit, timed: &times[filters], dropAll: r.c.dropAll}
				n := r.lookups / 2
				if cold {
					n = r.coldLookups
				}
				got, m, err := s.pass(ctx, w, r.misses(n))
				if err != nil {
					return err
				}
				if cells[filters] == nil {
					cells[filters] = s.cell(w, w.filters)
				}
				if err := cells[filters].add(got, m, true); err != nil {
					return err
				}
			}
			for k, c := range cells {
				c.Quantiles, c.ClockNanos = quantiles(times[k]), clockNanos()
			}
			r.keep("F3", 0, cells[0], cells[1])
			return nil
		}
		if !cold {
			err = measure()
		} else {
			err = r.cold(measure)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// quantiles describes a distribution: 101 evenly spaced shares, and four more near 100 %.
func quantiles(times []int64) []quantilePoint {
	if len(times) == 0 {
		return nil
	}
	slices.Sort(times)
	var points []quantilePoint
	for i := range 101 {
		p := float64(i) / 100
		for _, p := range append([]float64{p}, map[int][]float64{98: {0.985}, 99: {0.995, 0.999, 0.9999}}[i]...) {
			points = append(points, quantilePoint{p, float64(times[int(p*float64(len(times)-1))])})
		}
	}
	return points
}

// clockNanos returns the time that two neighbouring readings of the clock measure.
func clockNanos() float64 {
	times := make([]int64, 1001)
	for i := range times {
		begin := time.Now()
		times[i] = int64(time.Since(begin))
	}
	slices.Sort(times)
	return float64(times[len(times)/2])
}

// measureThroughput is F4: caches of several sizes, and several shares of present keys.
func measureThroughput(ctx context.Context, r *runner) error {
	s, err := r.tree(ctx, r.levels)
	if err != nil {
		return err
	}
	need, err := cacheNeed(s)
	if err != nil {
		return err
	}
	shares, hits := some(r, []float64{0, 1. / 16, 1. / 8, 1. / 4, 1. / 2, 1}), some(r, []float64{0, 0.1, 0.5, 0.9, 1})
	for i, share := range shares {
		w := way{cache: int64(share * float64(need)), limit: r.limit / 4}
		switch share {
		case 0:
			w.cache = noCache
		case 1:
			w.cache, w.scan = 2*need+32<<20, true // more, as its shards do not fill evenly
		}
		for j, h := range hits {
			r.step(i*len(hits)+j, len(shares)*len(hits))
			var q stream
			w.warmUp, q = r.mixture(r.lookups*2/5, h)
			off, on, err := s.compare(ctx, w, q)
			if err != nil {
				return err
			}
			off.Hits, on.Hits = h, h
			r.keep("F4", share, off, on)
		}
	}
	return nil
}

// measureRuns is F5: more and more runs in level 0, which are never merged.
func measureRuns(ctx context.Context, r *runner) error {
	all := some(r, []int{1, 2, 4, 6, 8, 12, 16})
	records := sample(r.data, r.fillKeys).Present
	for i, runs := range all {
		r.step(i, len(all))
		s, err := recipe{runs: runs, bits: 10}.make(ctx, r.dir, records)
		if err != nil {
			return err
		}
		off, on, err := s.compare(ctx, way{cache: noCache, limit: r.limit / 2}, r.misses(4*r.lookups)) // false positives are few
		s.remove()
		if err != nil {
			return err
		}
		r.keep("F5", float64(runs), off, on)
	}
	return nil
}

// measurePrice is F6: what it costs to build filters and to keep them in memory.
func measurePrice(ctx context.Context, r *runner) error {
	all := some(r, []float64{0, 4, 6, 8, 10, 12, 16, 20})
	records := sample(r.data, r.fillKeys).Present
	hashes := make([]uint64, len(records))
	var hasher bloom.Hasher
	cells := make([]*cell, len(all))
	const rounds = 4
	for i := range rounds * len(all) {
		r.step(i, rounds*len(all))
		k := i % len(all)
		if i/len(all)%2 == 1 {
			k = len(all) - 1 - k // every other round goes down
		}
		took, m, err := recipe{bits: all[k]}.timeToWrite(ctx, r.dir, records)
		if err != nil {
			return err
		}
		if cells[k] == nil {
			cells[k] = &cell{Filters: all[k] > 0, Keys: len(records), Levels: benchmark.LevelsOf(m), FilterBytes: m.FilterMemory}
			for _, l := range m.Levels {
				cells[k].TableBytes += l.Bytes
			}
			r.keep("F6", all[k], cells[k])
		}
		c := cells[k]
		c.WriteSeconds = append(c.WriteSeconds, took.Seconds())
		if all[k] == 0 {
			continue
		}
		begin := time.Now()
		for j, rec := range records {
			hashes[j] = hasher.Hash(rec.Key)
		}
		if _, err := bloom.AppendStatic(nil, hashes, bloom.StaticOptions{BitsPerKey: all[k]}); err != nil {
			return err
		}
		nanos := float64(time.Since(begin)) / float64(len(records))
		if c.BuildNanos == 0 || nanos < c.BuildNanos {
			c.BuildNanos = math.Round(nanos*10) / 10
		}
	}
	return nil
}

// measureValues is F7: larger and larger values, which can't be compressed.
func measureValues(ctx context.Context, r *runner) error {
	all := some(r, []int{0, 32, 256, 4096, 65536})
	for i, size := range all {
		r.step(i, len(all))
		n := min(max(64<<20/max(size, 1), 1000), r.fillKeys/3)
		if r.c.short {
			n = min(n, 4<<20/max(size, 1))
		}
		d := sample(r.data, n)
		d = &benchmark.Dataset{Present: slices.Clone(d.Present), Absent: slices.Clone(r.absent[:min(len(r.absent), r.lookups)])}
		values := rand.NewChaCha8([32]byte{11})
		for j := range d.Present {
			d.Present[j].Value = make([]byte, size)
			_, _ = values.Read(d.Present[j].Value) // never fails
		}
		if err := d.Check(); err != nil {
			return err
		}
		s, err := recipe{levels: min(3, r.levels), bits: 10}.make(ctx, r.dir, d.Present)
		if err != nil {
			return err
		}
		q := stream{keys: d.Absent}
		off, on, err := s.compare(ctx, way{cache: noCache, limit: r.limit / 2}, q)
		if err == nil {
			r.keep("F7", float64(size), off, on)
			err = r.cold(func() error {
				off, on, err := s.compare(ctx, way{cache: noCache, cold: true, limit: r.limit, dropAll: r.c.dropAll}, q.part(0, min(r.coldLookups, len(q.keys))))
				if err == nil {
					r.keep("F7", float64(size), off, on)
				}
				return err
			})
		}
		s.remove()
		if err != nil {
			return err
		}
	}
	return nil
}

// measureControls looks up keys for which filters should save nothing, and others for
// which they should save more.
func measureControls(ctx context.Context, r *runner) error {
	s, err := r.tree(ctx, r.levels)
	if err != nil {
		return err
	}
	n := r.lookups / 4
	_, hits := r.mixture(n, 1)
	zipf := benchmark.Skewed(r.absent)
	all := []struct {
		name string
		q    stream
		gc   int
	}{
		{"absent keys", r.misses(n), 100},
		{"absent keys, no garbage collection", r.misses(n), -1},
		{"absent keys, some more often than others (Zipf, 1.1)", stream{keys: zipf[:min(n, len(zipf))]}, 100},
		{"absent keys beyond the last key", outside(r.data.Present, n), 100},
		{"present keys", hits, 100},
	}
	for i, control := range all {
		r.step(i, len(all))
		old := debug.SetGCPercent(control.gc)
		off, on, err := s.compare(ctx, way{cache: noCache, limit: r.limit / 2}, control.q)
		debug.SetGCPercent(old)
		if err != nil {
			return fmt.Errorf("%s: %w", control.name, err)
		}
		off.Name, on.Name = control.name, control.name
		r.keep(controls, float64(i), off, on)
	}
	return nil
}
