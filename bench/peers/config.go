package main

import (
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/shaledb/shale/bench/peers/internal/data"
	"github.com/shaledb/shale/bench/peers/internal/figures"
	"github.com/shaledb/shale/bench/peers/internal/stores"
)

// A config is what a run is asked to do.
type config struct {
	n, rounds, value int
	overwrites       int
	seconds, budget  float64
	memtable, cache  int64
	keys             string
	workloads, only  []string
	dir, json        string
	short, table     bool
}

// Entries that a run has unless told: of large values fewer.
const (
	defaultEntries = 5_000_000
	defaultBytes   = 1 << 30
	shortEntries   = 20_000
)

// What -table measures: the rows of the first table of docs/PERFORMANCE.md, in half an hour. Two stores are left out, which
// take the half of a run of all.
var (
	tableWorkloads = []string{
		"fillrandom", "fillbatch", "fillsync16", "fill8k", "reopen", "reopen-first", "reopen-cold",
		"readrandom", "readmissing", "seekrandom", "readseq", "readreverse", "readrandom-small", "seekrandom-small", "readseq-small",
		"seekrandom-levels", "readwhilewriting",
	}
	notInTable = []string{"badger", "goleveldb"}
)

func parse(args []string, messages io.Writer) (config, error) {
	var c config
	var workloads, only string
	var groupNames []string
	for _, g := range groups {
		groupNames = append(groupNames, g.name)
	}
	f := flag.NewFlagSet("peers", flag.ContinueOnError)
	f.SetOutput(messages)
	f.IntVar(&c.n, "n", 0, "`entries` (default: 5 million of 100 bytes, 1 GiB of larger ones)")
	f.IntVar(&c.rounds, "rounds", 3, "`rounds`, in turns; medians are printed")
	f.IntVar(&c.value, "value", 100, "value `bytes`, of which half compress")
	f.Float64Var(&c.seconds, "seconds", 2, "how `long` reads last; those of YCSB and beside writes twice that")
	f.Float64Var(&c.budget, "budget", 20, "most `seconds` of a workload that writes: what takes longer is cut, and marked")
	f.IntVar(&c.overwrites, "overwrites", 1, "`times` that overwrite writes as many entries as there are, within as many budgets")
	f.Int64Var(&c.memtable, "memtable", 64<<20, "memtable `bytes`")
	f.Int64Var(&c.cache, "cache", 0, "block cache `bytes` (default: 1 GiB, or 1.5 times the data if that is more)")
	f.StringVar(&c.keys, "keys", "random", "`kind` of keys: "+strings.Join(data.Kinds, ", "))
	f.StringVar(&workloads, "workloads", "", "`list` of workloads or groups of them (default: all)\ngroups: "+strings.Join(groupNames, ", ")+
		"\nworkloads: "+strings.Join(workloadNames(), ", "))
	f.StringVar(&only, "only", "", "`list` of the stores to run: "+strings.Join(stores.Names(), ", ")+"; or null, pebble-apart (default: all but these)")
	f.StringVar(&c.dir, "dir", "", "`directory` for the stores (default: a temporary one)")
	f.StringVar(&c.json, "json", "", "write the results to this `file` too")
	f.BoolVar(&c.table, "table", false, "five short rounds of the first table of docs/PERFORMANCE.md, without badger and goleveldb: half an hour")
	f.BoolVar(&c.short, "short", false, "a few seconds for everything: figures mean nothing")
	if err := f.Parse(args); err != nil {
		return c, err
	}
	if f.NArg() > 0 {
		return c, fmt.Errorf("unknown argument %q", f.Arg(0))
	}
	given := map[string]bool{}
	f.Visit(func(f *flag.Flag) { given[f.Name] = true })
	c.workloads, c.only = figures.List(workloads), figures.List(only)
	c.complete(given)
	return c, c.validate()
}

// complete sets what was not given.
func (c *config) complete(given map[string]bool) {
	unless := func(settings map[string]func()) {
		for name, set := range settings {
			if !given[name] {
				set()
			}
		}
	}
	if c.table {
		unless(map[string]func(){
			"rounds":    func() { c.rounds = 5 },
			"seconds":   func() { c.seconds = 0.5 },
			"budget":    func() { c.budget = 5 },
			"workloads": func() { c.workloads = tableWorkloads },
			"only": func() {
				c.only = slices.DeleteFunc(stores.Names(), func(name string) bool { return slices.Contains(notInTable, name) })
			},
		})
	}
	if c.short {
		unless(map[string]func(){
			"n":        func() { c.n = shortEntries },
			"rounds":   func() { c.rounds = 1 },
			"seconds":  func() { c.seconds = 0.02 },
			"budget":   func() { c.budget = 0.2 },
			"memtable": func() { c.memtable = 256 << 10 },
			"cache":    func() { c.cache = 16 << 20 },
		})
	}
	if c.n == 0 && c.value > 0 {
		c.n = min(defaultEntries, max(minEntries, defaultBytes/(keyBytes+c.value)))
	}
	if c.cache == 0 {
		c.cache = max(1<<30, c.dataBytes()*3/2)
	}
	if len(c.only) == 0 {
		c.only = stores.Names()
	}
}

func (c *config) validate() error {
	for _, s := range c.only {
		if _, err := stores.Find(s); err != nil {
			return fmt.Errorf("-only: %w", err)
		}
	}
	for _, w := range c.workloads {
		if findGroup(w) == nil && !slices.Contains(workloadNames(), w) {
			return fmt.Errorf("-workloads: %q is neither a workload nor a group", w)
		}
	}
	switch {
	case c.value < 16:
		return fmt.Errorf("-value is %d, not at least 16", c.value)
	case c.n < minEntries || uint64(c.n) > data.MaxEntries:
		return fmt.Errorf("-n is %d, not in [%d, %d]", c.n, minEntries, uint64(data.MaxEntries))
	case c.rounds < 1 || c.overwrites < 1 || c.seconds <= 0 || c.budget <= 0:
		return fmt.Errorf("-rounds, -overwrites, -seconds and -budget are above 0")
	case !slices.Contains(data.Kinds, c.keys):
		return fmt.Errorf("-keys is %q, not one of %v", c.keys, data.Kinds)
	}
	return nil
}

// dataBytes is the size of all keys and values.
func (c *config) dataBytes() int64 { return int64(c.n) * int64(keyBytes+c.value) }

// smallCache is 1/16 of the data.
func (c *config) smallCache() int64 { return c.dataBytes() / 16 }

// quiet is for how many seconds nothing happens in a store that has settled.
func (c *config) quiet() float64 {
	if c.short {
		return 0.1
	}
	return 1
}
