// Command metricnames is the index of names of a time series database. For each sample that
// arrives it answers: is this metric name known? A new name is entered, up to a number of new
// names a second. It is an example of shale as a set: the filters of its tables answer for nearly
// all new names, without a read.
//
//	go run ./examples/metricnames
//
// takes the same made-up samples twice, without filters and with them, and prints
//
//	200000 known names; 30 seconds with 5000 samples each; at most 1000 new names a second
//	                known    added  refused   blocks   filter bytes  new names/s
//	no filters     108031    11979    29990    41969              0       189446
//	filters        108031    11979    29990      439         250080      3048336
//
// Blocks are searches of blocks of the store for new names, and the rate is how many names the
// index can find to be new in a second.
//
// Most samples are of known names, and are found in the store's cache. A new name has to be
// looked up in the whole index only to find that it is not there. There may be many of them at
// once, as when a service puts the number of each request into a name. A limit keeps these from
// filling the database, and the filters make it cheap to refuse them. A filter alone would not
// do: it takes a new name for a known one now and then, and the series would be missing for ever.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"github.com/shaledb/shale"
)

// A config is the size of the made-up traffic: samples of 30 seconds. In the 10 seconds in the
// middle, a service has put the number of each request into a name.
type config struct {
	names   int // known names at the beginning
	samples int // a second
	limit   int // new names a second
}

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
		for range c.samples {
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
	verdicts [3]int        // samples with each verdict
	blocks   uint64        // searches of blocks for new names
	checking time.Duration // time until the index knew that new names were new
	memory   int64         // bytes of the filters at the end
}

// takeTraffic makes an index of the known names in a new folder, and gives it the traffic.
func takeTraffic(ctx context.Context, c config, dir string, bits float64) (r result, err error) {
	x, err := openIndex(dir, c.limit, bits)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, x.db.Close()) }()
	if err := fill(ctx, x.db, c.names); err != nil {
		return r, err
	}
	err = traffic(c, func(name string, second int64) error {
		before, begin := x.db.Metrics(), time.Now()
		there, err := x.has(name)
		v := known
		if err == nil && !there {
			r.checking += time.Since(begin)
			after := x.db.Metrics()
			r.blocks += after.CacheHits + after.CacheMisses - before.CacheHits - before.CacheMisses
			v, err = x.add(name, second)
		}
		r.verdicts[v]++
		return err
	})
	r.memory = x.db.Metrics().FilterMemory
	return r, err
}

// fill adds the known names, and merges the store's tables. It writes two of them that overlap. A
// single one would be moved to the last level as it is, with the filter of a young table, which
// has 24 bits a key where the last level has 10.
func fill(ctx context.Context, db *shale.DB, names int) error {
	for part := range 2 {
		var b shale.Batch
		for i := part; i < names; i += 2 {
			if err := b.Put([]byte(knownName(i)), nil); err != nil {
				return err
			}
		}
		if err := errors.Join(db.Write(ctx, &b), db.Flush(ctx)); err != nil {
			return err
		}
	}
	return db.Compact(ctx, shale.Range{})
}

// compare lets an index without filters and one with filters take the same traffic.
func compare(ctx context.Context, c config, dir string, out io.Writer) error {
	fmt.Fprintf(out, "%d known names; %d seconds with %d samples each; at most %d new names a second\n", c.names, seconds, c.samples, c.limit)
	fmt.Fprintf(out, "%-12s %8s %8s %8s %8s %14s %12s\n", "", "known", "added", "refused", "blocks", "filter bytes", "new names/s")
	for way, bits := range []float64{-1, 10} {
		name := []string{"no filters", "filters"}[way]
		r, err := takeTraffic(ctx, c, filepath.Join(dir, name), bits)
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "%-12s %8d %8d %8d %8d %14d %12.0f\n", name, r.verdicts[known], r.verdicts[added], r.verdicts[refused], r.blocks, r.memory,
			float64(r.verdicts[added]+r.verdicts[refused])/r.checking.Seconds())
	}
	return nil
}

func main() {
	dir, err := os.MkdirTemp("", "metricnames")
	if err == nil {
		c := config{names: 200_000, samples: 5000, limit: 1000}
		err = errors.Join(compare(context.Background(), c, dir, os.Stdout), os.RemoveAll(dir))
	}
	if err != nil {
		log.Fatal(err)
	}
}
