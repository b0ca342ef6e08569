// Command bench measures how much I/O filters save on lookups of absent keys.
//
//	go run ./bench
//
// With no arguments it needs nothing but the Go installation that compiled it:
// its keys are the distinct lines of the Go source files, half of them loaded,
// the other half asked for, so that every absent key lies inside the key range
// and nothing but a filter can tell that it is absent. -keys and -absent take
// any two lists instead, a key a line.
//
// It loads once and then reads the same tables with filters and with filters
// ignored, with a cache that holds everything and with one of a sixteenth of
// the data, warm and with the files dropped from the page cache. Block reads
// are counted by the store and held against the operating system's count of
// read calls; a difference is an error.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/shaledb/shale/internal/tuning"
)

type config struct {
	keys, absent string
	json         string
	dir          string
	bits         float64
	limit        time.Duration
}

func main() {
	var c config
	flag.StringVar(&c.keys, "keys", "", "load the lines of this `file` (with -absent)")
	flag.StringVar(&c.absent, "absent", "", "ask for the lines of this `file` (with -keys)")
	flag.StringVar(&c.json, "json", "", "write the results to this `file` too")
	flag.StringVar(&c.dir, "dir", "", "make the store in this `directory`, which must not exist, and keep it (default: a temporary one)")
	flag.Float64Var(&c.bits, "bits", 10, "filter `bits` a key, averaged over the store")
	flag.DurationVar(&c.limit, "time", 2500*time.Millisecond, "`duration` of each measurement at most")
	flag.IntVar(&tuning.LevelRuns, "runs", 0, "`runs` that a level between level 0 and the last may hold (default: the store's)")
	flag.Parse()
	if err := run(c); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(c config) error {
	if flag.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", flag.Arg(0))
	}
	if c.bits <= 0 {
		return fmt.Errorf("-bits %v: there must be filters to measure", c.bits)
	}
	if c.limit <= 0 {
		return fmt.Errorf("-time %v: there must be time to measure in", c.limit)
	}
	if err := c.openJSON(); err != nil {
		return err
	}
	data, err := c.dataset()
	if err != nil {
		return err
	}
	dir, remove, err := c.storeDir()
	if err != nil {
		return err
	}
	defer remove()
	store, err := load(dir, data, c.bits)
	if err != nil {
		return fmt.Errorf("load: %w", err)
	}
	r := newReport(c, data, store)
	r.printHead(os.Stdout)
	if err := r.measureAll(store, data, c.limit); err != nil {
		return err
	}
	r.print(os.Stdout)
	if c.json != "" {
		return r.writeJSON(c.json)
	}
	return nil
}

// openJSON makes sure, before the work, that its results can be written.
func (c config) openJSON() error {
	if c.json == "" {
		return nil
	}
	f, err := os.OpenFile(c.json, os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("-json: %w", err)
	}
	return f.Close()
}

func (c config) dataset() (*dataset, error) {
	switch {
	case c.keys == "" && c.absent == "":
		return goLines()
	case c.keys == "" || c.absent == "":
		return nil, errors.New("-keys and -absent go together")
	}
	return fileLines(c.keys, c.absent)
}

// storeDir returns where to make the store, and how to clean up.
func (c config) storeDir() (dir string, remove func(), err error) {
	if c.dir == "" {
		dir, err = os.MkdirTemp("", "shale-bench-")
		return dir, func() { _ = os.RemoveAll(dir) }, err
	}
	if _, err := os.Stat(c.dir); err == nil {
		return "", nil, fmt.Errorf("-dir: %s exists already", c.dir)
	}
	return c.dir, func() {}, nil
}
