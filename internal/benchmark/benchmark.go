// Package benchmark measures how much reading the filters save on lookups of absent
// keys, and prints a table. Command bench runs it; bench/report draws figures with its
// keys and its counts.
//
// Without options the keys are the distinct lines of the Go source files in GOROOT.
// Half of them are loaded and the other half are asked for. So every absent key lies
// inside the key range, and only a filter can tell that it is absent. -keys and
// -absent name two files with a key a line instead.
//
// The store is loaded once. The same tables are then read with filters and with
// filters ignored, with a block cache that holds everything and with one of a
// sixteenth of the data, and with files that are in the page cache and with files
// that are not. Every answer is checked, and so are the counts: see Counter.
package benchmark

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/shaledb/shale/internal/outfile"
)

// A config is what the options say.
type config struct {
	keys, absent string
	json         string
	dir          string
	bits         float64
	limit        time.Duration
}

// Run measures what args ask for and prints the table.
func Run(ctx context.Context, args []string, out io.Writer) error {
	c, err := parse(args, out)
	if errors.Is(err, flag.ErrHelp) {
		return nil
	}
	if err == nil {
		err = run(ctx, c, out)
	}
	return err
}

func parse(args []string, out io.Writer) (config, error) {
	var c config
	set := flag.NewFlagSet("bench", flag.ContinueOnError)
	set.SetOutput(io.Discard) // the caller of Run prints the error
	set.StringVar(&c.keys, "keys", "", "load the lines of this `file` (with -absent)")
	set.StringVar(&c.absent, "absent", "", "ask for the lines of this `file` (with -keys)")
	set.StringVar(&c.json, "json", "", "write the results to this `file` too")
	set.StringVar(&c.dir, "dir", "", "make the store in this `directory`, which must not exist, and keep it (default: a temporary one)")
	set.Float64Var(&c.bits, "bits", 10, "filter `bits` a key, averaged over the store")
	set.DurationVar(&c.limit, "time", 2500*time.Millisecond, "`duration` of each measurement at most")
	err := set.Parse(args)
	if errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(out, "usage: bench [options]")
		set.SetOutput(out)
		set.PrintDefaults()
	} else if err != nil {
		err = fmt.Errorf("%w; -h lists the options", err)
	} else if set.NArg() > 0 {
		err = fmt.Errorf("unexpected argument %q; -h lists the options", set.Arg(0))
	}
	return c, err
}

func run(ctx context.Context, c config, out io.Writer) error {
	if c.bits <= 0 {
		return fmt.Errorf("-bits %v: there must be filters to measure", c.bits)
	}
	if c.limit <= 0 {
		return fmt.Errorf("-time %v: there must be time to measure in", c.limit)
	}
	if err := c.openJSON(); err != nil {
		return err
	}
	reading := NewProgress("reading the keys", 0)
	data, err := ReadDataset(c.keys, c.absent)
	reading.Done()
	if err != nil {
		return err
	}
	dir, remove, err := c.storeDir()
	if err != nil {
		return err
	}
	defer remove()
	store, err := load(ctx, dir, data, c.bits)
	if err != nil {
		return fmt.Errorf("load: %w", err)
	}
	s := newSummary(data, store)
	s.printStore(out)
	if err := s.measureAll(ctx, store, data, c.limit); err != nil {
		return err
	}
	s.printResults(out)
	if c.json != "" {
		return s.writeJSON(c.json)
	}
	return nil
}

// openJSON creates the file of -json before the work, so that a wrong name costs no time.
func (c config) openJSON() error {
	if c.json == "" {
		return nil
	}
	f, err := outfile.Open(c.json, os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("-json: %w", err)
	}
	return f.Close()
}

// storeDir returns the folder of the store, and a function that removes a temporary one.
func (c config) storeDir() (dir string, remove func(), err error) {
	if c.dir == "" {
		dir, err = os.MkdirTemp("", "shale-bench-")
		return dir, func() { _ = os.RemoveAll(dir) }, err
	}
	if _, err := os.Stat(c.dir); err == nil {
		return "", nil, fmt.Errorf("-dir: %s exists already", c.dir)
	}
	if err := outfile.Folder(c.dir); err != nil {
		return "", nil, fmt.Errorf("-dir: %w", err)
	}
	return c.dir, func() {}, nil
}
