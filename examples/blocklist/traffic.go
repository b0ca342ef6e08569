package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"sort"
	"time"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/bloom/sketch"
)

// traffic asks for the domains of a list as often as Zipf's law says: the share of the r-th
// is proportional to 1/r. It does so four times: without filters, with those of the store,
// with the filter file in front of the store, and with a list of the filter's mistakes.
func traffic(ctx context.Context, c config, out io.Writer) error {
	filter, err := openFilter(c.filter)
	if err != nil {
		return err
	}
	domains, err := readDomains(c.top)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%d questions for %d domains, the first most often. For each way:\n", c.lookups, len(domains))
	fmt.Fprintf(out, "%-22s %9s %9s %9s %9s %9s %9s\n", "", "in store", "blocks", "in vain", "from disk", "listed", "ns each")
	var blocks [4]uint64
	for i, way := range []string{"no filters", "the store's filters", "and the filter file", "and its mistakes"} {
		opts := &shale.Options{ReadOnly: true, CacheSize: c.cache}
		if i == 0 {
			opts.FilterBits = -1
		}
		j := &judge{}
		if i >= 2 {
			j.filter = filter
		}
		if i == 3 {
			if j.exact, err = sketch.NewExact(filter, sketch.ExactOptions{}); err != nil {
				return err
			}
		}
		m, each, err := ask(ctx, c, opts, j, domains)
		if err != nil {
			return err
		}
		blocks[i] = m.CacheHits + m.CacheMisses
		fmt.Fprintf(out, "%-22s %9d %9d %9d %9d %9d %9d\n",
			way, j.lookups, blocks[i], blocks[i]-uint64(j.listed), m.BlockReads, j.listed, each.Nanoseconds())
	}
	fmt.Fprintf(out, "The filters saved %d of %d searches of blocks.\n", blocks[0]-blocks[3], blocks[0])
	return nil
}

// ask makes j answer the questions of the traffic, which are the same each time. It returns
// the metrics of the store and the mean time of a question.
func ask(ctx context.Context, c config, opts *shale.Options, j *judge, domains []entry) (m shale.Metrics, each time.Duration, err error) {
	db, err := shale.Open(c.db, opts)
	if err != nil {
		return m, 0, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	j.db = db
	rank := zipf(len(domains))
	begin := time.Now()
	for range c.lookups {
		if _, err := j.entry(domains[rank()]); err != nil {
			return m, 0, err
		}
		if j.names&1023 == 0 && ctx.Err() != nil {
			return m, 0, ctx.Err()
		}
	}
	each = time.Since(begin) / time.Duration(c.lookups)
	return db.Metrics(), each, nil
}

// zipf returns a function that draws ranks from 0 to n-1, always the same ones. It is used
// in place of rand.Zipf, which does not allow the exponent 1 of domain names.
func zipf(n int) func() int {
	rng := rand.New(rand.NewPCG(1, 2))
	sums, sum := make([]float64, n), 0.0
	for r := range sums {
		sum += 1 / float64(r+1)
		sums[r] = sum
	}
	return func() int { return min(sort.SearchFloat64s(sums, rng.Float64()*sum), n-1) }
}

// readDomains returns the hosts of a list in the order of the list.
func readDomains(name string) ([]entry, error) {
	var domains []entry
	if _, err := readList(name, func(e entry) error {
		domains = append(domains, entry{host: e.host})
		return nil
	}); err != nil {
		return nil, err
	}
	if len(domains) == 0 {
		return nil, fmt.Errorf("%s: no domains", name)
	}
	return domains, nil
}
