package main

import (
	"flag"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/shaledb/shale/bench/peers/internal/figures"
	"github.com/shaledb/shale/bench/peers/internal/keys"
)

// A config is what a run is asked to do.
type config struct {
	sizes, lengths       []int // numbers of keys; their bytes
	asks, rounds, fills  int
	keys                 string
	groups, only         []string
	json                 string
	short                bool
	lowered              []int // sizes that memory does not suffice for, as asked
	memory, memoryPerKey int64
}

// Above largeSize filters are filled -fills times, below as often as they are
// asked.
const largeSize = 4_000_000

// perKey is the memory that a key takes while the filters are filled: some 25
// bytes in all filters together, 8 for its hash, up to 40 while one is built, and
// as much again that the collector has not freed.
const perKey = 150

const (
	minSize = 1000
	maxSize = 1_000_000_000
)

func parse(args []string, messages io.Writer) (config, error) {
	c := config{memory: availableMemory(), memoryPerKey: perKey}
	var sizes, lengths, groupList, only string
	f := flag.NewFlagSet("filters", flag.ContinueOnError)
	f.SetOutput(messages)
	f.StringVar(&sizes, "n", "62500,1000000,50000000", "`list` of how many keys; what memory does not suffice for is lowered")
	f.StringVar(&lengths, "lengths", "16,100", "`list` of how long keys are, in bytes")
	f.IntVar(&c.asks, "asks", 1_000_000, "`questions` in a round, absent keys and present ones each")
	f.IntVar(&c.rounds, "rounds", 5, "`rounds`, in turns; medians are printed")
	f.IntVar(&c.fills, "fills", 1, fmt.Sprintf("`times` that filters of more than %d keys are filled; smaller ones as there are rounds", largeSize))
	f.StringVar(&c.keys, "keys", "random", "`kind` of keys: random, or structured as user%012d")
	f.StringVar(&groupList, "groups", "", "`list` of the groups to run, the first words of their names (default: all)")
	f.StringVar(&only, "only", "", "`list` of the filters to run, by a part of their names, with commas between (default: all)")
	f.StringVar(&c.json, "json", "", "write the results to this `file` too")
	f.BoolVar(&c.short, "short", false, "a run of a second, to see that all works: its figures mean nothing")
	if err := f.Parse(args); err != nil {
		return c, err
	}
	if f.NArg() > 0 {
		return c, fmt.Errorf("unknown argument %q", f.Arg(0))
	}
	if c.short {
		sizes, c.asks, c.rounds = "10000", 5_000, 2
	}
	c.groups = figures.List(groupList)
	if only != "" {
		c.only = strings.Split(only, ",") // names have blanks
	}
	var err error
	if c.sizes, err = numbers("n", sizes); err != nil {
		return c, err
	}
	if c.lengths, err = numbers("lengths", lengths); err != nil {
		return c, err
	}
	if err := c.validate(); err != nil {
		return c, err
	}
	c.fit()
	return c, nil
}

func numbers(name, list string) ([]int, error) {
	var all []int
	for _, s := range figures.List(list) {
		n, err := strconv.Atoi(s)
		if err != nil {
			return nil, fmt.Errorf("-%s: %w", name, err)
		}
		all = append(all, n)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("-%s is empty", name)
	}
	return all, nil
}

func (c *config) validate() error {
	for _, n := range c.sizes {
		if n < minSize || n > maxSize {
			return fmt.Errorf("-n: %d is not in [%d, %d]", n, minSize, maxSize)
		}
	}
	for _, n := range c.lengths {
		if n < keys.Size || n > 1<<16 {
			return fmt.Errorf("-lengths: %d is not in [%d, %d]", n, keys.Size, 1<<16)
		}
	}
	for _, g := range c.groups {
		if !slices.ContainsFunc(groups, func(known group) bool { return strings.HasPrefix(known.name, g) }) {
			return fmt.Errorf("-groups: there is none that begins with %q", g)
		}
	}
	switch {
	case c.asks < 1 || c.rounds < 1 || c.fills < 1:
		return fmt.Errorf("-asks, -rounds and -fills are at least 1")
	case c.keys != "random" && c.keys != "structured":
		return fmt.Errorf("-keys is %q, not random or structured", c.keys)
	}
	return nil
}

// fit lowers the sizes for which memory does not suffice.
func (c *config) fit() {
	if c.memory <= 0 {
		return // it is not known
	}
	most := int(max(c.memory/c.memoryPerKey, minSize))
	for i, n := range c.sizes {
		if n > most {
			c.lowered = append(c.lowered, n)
			c.sizes[i] = most
		}
	}
	c.sizes = slices.Compact(c.sizes)
}

// takes tells whether a contestant is to run.
func (c *config) takes(x contestant) bool {
	begins := func(g string) bool { return strings.HasPrefix(x.group, g) }
	names := func(part string) bool { return strings.Contains(x.name, part) }
	return (len(c.groups) == 0 || slices.ContainsFunc(c.groups, begins)) &&
		(len(c.only) == 0 || slices.ContainsFunc(c.only, names))
}

// fillings is how many times filters of n keys are filled.
func (c *config) fillings(n int) int {
	if n > largeSize {
		return c.fills
	}
	return c.rounds
}
