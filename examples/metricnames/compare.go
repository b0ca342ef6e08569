package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"github.com/shaledb/shale"
)

// The made-up traffic: samples of 30 seconds. In the 10 seconds in the middle, a service has
// put the number of each request into a name.
const (
	seconds      = 30
	floodBegins  = 10
	floodEnds    = 20
	calmShare    = 0.02 // of new names in calm seconds
	floodedShare = 0.8  // and in the others
)

// knownName returns the name of a known series, in the form of Prometheus.
func knownName(i int) string {
	return fmt.Sprintf(`http_requests_total{pod="api-%05d",code="%d"}`, i/5, 200+100*(i%5))
}

// traffic calls fn for the samples, always the same ones.
func traffic(c config, fn func(name string, second int64) error) error {
	rng := rand.New(rand.NewPCG(1, 2))
	for second := range int64(seconds) {
		share := calmShare
		if second >= floodBegins && second < floodEnds {
			share = floodedShare
		}
		for range c.samples / seconds {
			name := knownName(rng.IntN(c.names))
			if rng.Float64() < share {
				name = fmt.Sprintf(`http_requests_total{pod="api-%05d",request="%016x"}`, rng.IntN(c.names)/5, rng.Uint64())
			}
			if err := fn(name, second); err != nil {
				return err
			}
		}
	}
	return nil
}

// A result is what the traffic has cost.
type result struct {
	tally
	blocks   uint64        // searches of blocks for new names
	checking time.Duration // time until the index knew that new names were new
	memory   int64         // bytes of the filters at the end
}

// compare lets an index without filters and one with filters take the same traffic.
func compare(ctx context.Context, c config, out io.Writer) (err error) {
	dir, err := os.MkdirTemp("", "metricnames")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	fmt.Fprintf(out, "%d known names; %d seconds with %d samples each; at most %d new names a second\n", c.names, seconds, c.samples/seconds, c.limit)
	fmt.Fprintf(out, "%-12s %8s %8s %8s %8s %14s %12s\n", "", "known", "added", "refused", "blocks", "filter bytes", "new names/s")
	for _, way := range []string{"no filters", "filters"} {
		bits := 10.0
		if way == "no filters" {
			bits = -1
		}
		r, err := takeTraffic(ctx, c, filepath.Join(dir, way), bits)
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "%-12s %8d %8d %8d %8d %14d %12.0f\n", way, r.known, r.added, r.refused, r.blocks, r.memory, float64(r.added+r.refused)/r.checking.Seconds())
	}
	return nil
}

// takeTraffic makes an index of the known names in a new folder, and gives it the traffic.
func takeTraffic(ctx context.Context, c config, dir string, bits float64) (r result, err error) {
	x, err := openIndex(dir, c.limit, shale.Options{FilterBits: bits, CacheSize: 1 << 20})
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, x.close()) }()
	names := make([]string, c.names)
	for i := range names {
		names[i] = knownName(i)
	}
	if err := x.fill(ctx, names); err != nil {
		return r, err
	}
	err = traffic(c, func(name string, second int64) error {
		before, begin := x.db.Metrics(), time.Now()
		there, err := x.has(name)
		if err != nil || there {
			r.count(known)
			return errors.Join(err, ctx.Err())
		}
		r.checking += time.Since(begin)
		after := x.db.Metrics()
		r.blocks += after.CacheHits + after.CacheMisses - before.CacheHits - before.CacheMisses
		v, err := x.add(name, second)
		r.count(v)
		return errors.Join(err, ctx.Err())
	})
	r.memory = x.db.Metrics().FilterMemory
	return r, err
}
