package main

import (
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/shaledb/shale/bench/peers/internal/figures"
	"github.com/shaledb/shale/bench/peers/internal/keys"
	"github.com/shaledb/shale/internal/tuning"
)

// Sizes of all entries.
const (
	keySize   = keys.Size
	valueSize = 100
)

// A config is what a run is asked to do.
type config struct {
	n, reads, rounds, fills int
	memtable, cache         int64
	keys                    string
	workloads, only         []string
	dir, json               string
}

// workloadNames are the choices of -workloads, in the order of the report.
var workloadNames = []string{"fill", "missing", "random", "missing2", "small", "levels"}

func parse(args []string, messages io.Writer) (config, error) {
	var c config
	var workloads, only string
	f := flag.NewFlagSet("peers", flag.ContinueOnError)
	f.SetOutput(messages)
	f.IntVar(&c.n, "n", 5_000_000, "`entries`: 16-byte keys, 100-byte values that halve under snappy")
	f.IntVar(&c.reads, "reads", 1_000_000, "`lookups` of each reader in a round")
	f.IntVar(&c.rounds, "rounds", 5, "`rounds` of reads, in turns; medians are printed")
	f.IntVar(&c.fills, "fills", 1, "`times` that each store is filled, in turns; the last is read")
	f.Int64Var(&c.memtable, "memtable", 64<<20, "memtable `bytes`")
	f.Int64Var(&c.cache, "cache", 0, "block cache `bytes` (default: 1 GiB, or 1.5 times the data if that is more)")
	f.StringVar(&c.keys, "keys", "random", "`kind` of keys: random, or structured as user%012d")
	f.StringVar(&workloads, "workloads", strings.Join(workloadNames, ","), "what to measure: a `list`")
	f.StringVar(&only, "only", "", "`list` of the stores to run: "+strings.Join(storeNames(), ", ")+" (default: all)")
	f.IntVar(&tuning.LevelRuns, "runs", 0, "`runs` that a level of shale between level 0 and the last may hold (default: the store's)")
	f.StringVar(&c.dir, "dir", "", "`directory` for the stores (default: a temporary one)")
	f.StringVar(&c.json, "json", "", "write the results to this `file` too")
	if err := f.Parse(args); err != nil {
		return c, err
	}
	if f.NArg() > 0 {
		return c, fmt.Errorf("unknown argument %q", f.Arg(0))
	}
	c.workloads, c.only = figures.List(workloads), figures.List(only)
	if c.cache == 0 {
		c.cache = max(1<<30, c.dataBytes()*3/2)
	}
	return c, c.validate()
}

func (c *config) validate() error {
	for _, w := range c.workloads {
		if !slices.Contains(workloadNames, w) {
			return fmt.Errorf("-workloads: %q is not one of %s", w, strings.Join(workloadNames, ", "))
		}
	}
	for _, s := range c.only {
		if !slices.Contains(storeNames(), s) {
			return fmt.Errorf("-only: %q is not one of %s", s, strings.Join(storeNames(), ", "))
		}
	}
	switch {
	case c.n < minEntries || uint64(c.n) > keys.MaxEntries:
		return fmt.Errorf("-n is %d, not in [%d, %d]", c.n, minEntries, uint64(keys.MaxEntries))
	case c.reads < 1 || c.rounds < 1 || c.fills < 1:
		return fmt.Errorf("-reads, -rounds and -fills are at least 1")
	case c.keys != "random" && c.keys != "structured":
		return fmt.Errorf("-keys is %q, not random or structured", c.keys)
	case len(c.workloads) == 0:
		return fmt.Errorf("-workloads is empty")
	}
	return nil
}

// asks tells whether one of the workloads is to be measured.
func (c *config) asks(workloads ...string) bool {
	return slices.ContainsFunc(workloads, func(w string) bool { return slices.Contains(c.workloads, w) })
}

// dataBytes is the size of all keys and values.
func (c *config) dataBytes() int64 { return int64(c.n) * (keySize + valueSize) }

// smallCache is the cache of the workload that bears the name: 1/16 of the data.
func (c *config) smallCache() int64 { return c.dataBytes() / 16 }
