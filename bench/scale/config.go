package main

import (
	"flag"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A config is what the options say.
type config struct {
	stores []spec // by size; those of tables first
	dir    string // "": a temporary folder
	keep   bool
	rows   *regexp.Regexp
	budget time.Duration // about how long each row is measured in each store
}

// parse returns what args say, or an error that names the option at fault. It prints
// the help to out if args ask for it; the error is flag.ErrHelp then.
func parse(args []string, out io.Writer) (config, error) {
	var c config
	var tables, keys, rows string
	set := flag.NewFlagSet("scale", flag.ContinueOnError)
	set.SetOutput(io.Discard) // main prints the error
	set.StringVar(&tables, "tables", "1000,10000,100000", "measure stores with these `numbers` of small tables")
	set.StringVar(&keys, "keys", "", "measure stores with these `numbers` of keys, in tables of the usual size")
	set.StringVar(&c.dir, "dir", "", "make the stores in this `directory` (default: that of temporary files)")
	set.BoolVar(&c.keep, "keep", false, "keep the stores in -dir, and use those that were kept there")
	set.StringVar(&rows, "rows", "", "measure only the rows that this regular `expression` matches")
	set.DurationVar(&c.budget, "time", 300*time.Millisecond, "about how long each row is measured in each store")
	if err := set.Parse(args); err != nil {
		if err == flag.ErrHelp {
			fmt.Fprintln(out, "usage: scale [options]")
			set.SetOutput(out)
			set.PrintDefaults()
			return c, err
		}
		return c, fmt.Errorf("%w; -h lists the options", err)
	}
	if set.NArg() > 0 {
		return c, fmt.Errorf("unexpected argument %q; -h lists the options", set.Arg(0))
	}
	return c, c.complete(tables, keys, rows)
}

// complete sets the fields that are not plain values, and checks all.
func (c *config) complete(tables, keys, rows string) error {
	var err error
	if c.rows, err = regexp.Compile(rows); err != nil {
		return fmt.Errorf("-rows: %w", err)
	}
	if len(chosen(c.rows)) == 0 {
		return fmt.Errorf("-rows %q matches none of the rows, which are: %s", rows, strings.Join(rowNames(), "; "))
	}
	if c.budget <= 0 {
		return fmt.Errorf("-time is %v: there must be time to measure in", c.budget)
	}
	if c.keep && c.dir == "" {
		return fmt.Errorf("-keep needs a place where the stores stay: give one with -dir")
	}
	numbers, err := numbersOf("-tables", tables, minTables, maxTables)
	if err != nil {
		return err
	}
	for _, n := range numbers {
		if n%upperShare != 0 {
			return fmt.Errorf("-tables: %d is not a multiple of %d, and one table of %d is in the upper level", n, upperShare, upperShare)
		}
		c.stores = append(c.stores, spec{tables: n, keys: n * keysPerTable})
	}
	numbers, err = numbersOf("-keys", keys, minKeys, maxKeys)
	for _, n := range numbers {
		c.stores = append(c.stores, spec{keys: n})
	}
	if err == nil && len(c.stores) == 0 {
		err = fmt.Errorf("neither -tables nor -keys has a number: there is no store to measure")
	}
	return err
}

// numbersOf returns the numbers of a list with commas, sorted, each once.
func numbersOf(option, list string, least, most int) ([]int, error) {
	var numbers []int
	for field := range strings.SplitSeq(list, ",") {
		if field = strings.TrimSpace(field); field == "" {
			continue
		}
		n, err := strconv.Atoi(field)
		switch {
		case err != nil:
			return nil, fmt.Errorf("%s: %q is not a whole number", option, field)
		case n < least:
			return nil, fmt.Errorf("%s: %d is below %d, the smallest store that can be made", option, n, least)
		case n > most:
			return nil, fmt.Errorf("%s: %d is above %d", option, n, most)
		}
		numbers = append(numbers, n)
	}
	slices.Sort(numbers)
	return slices.Compact(numbers), nil
}
