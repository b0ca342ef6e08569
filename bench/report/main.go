// Command report measures what filters save, and draws it:
//
//	cd bench/report && go run . -o DIR
//
// DIR gets two figures as SVG, and standard output the numbers in them. It takes two
// minutes or more. F1 varies the number of levels, and reads each tree with filters
// ignored, on, on, and ignored again; F2 varies the bits of the filters. Seeds are fixed,
// so that the counts are the same in every run.
//
// It is a module of its own, so that the module of the store stays small. Package
// internal/benchmark of that module has the keys, and checks the counts.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/shaledb/shale/internal/benchmark"
	"github.com/shaledb/shale/internal/outfile"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the program at once
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "report:", err)
		os.Exit(1)
	}
}

// A config is what the options say.
type config struct {
	keys, absent string
	dir          string
	dropAll      bool
	effort       effort
}

// An effort is how much is measured.
type effort struct {
	keys        int // loaded at most; 0: all
	lookups     int // of a pass
	coldLookups int // of a pass with cold files
	levels      int // of the deepest tree
	limit       time.Duration
	bits        []float64 // of the filters of F2, a key
}

// run makes the figures that args ask for.
func run(ctx context.Context, args []string, out io.Writer) error {
	c := config{effort: effort{
		lookups: 100_000, coldLookups: 1500, levels: 5, limit: 2 * time.Second, bits: []float64{0, 2, 4, 6, 8, 10, 12, 16, 20},
	}}
	short := false
	set := flag.NewFlagSet("report", flag.ContinueOnError)
	set.SetOutput(io.Discard) // main prints the error
	set.StringVar(&c.dir, "o", "shale-report", "write the figures into this `directory`")
	set.StringVar(&c.keys, "keys", "", "load the lines of this `file` (with -absent; default: half of the lines of the Go sources)")
	set.StringVar(&c.absent, "absent", "", "ask for the lines of this `file` (with -keys)")
	set.BoolVar(&short, "short", false, "few keys, in seconds: to see what the figures look like")
	set.BoolVar(&c.dropAll, "drop-caches", false,
		"for cold reads, also make the system drop all its caches (needs root, slows other programs down)")
	err := set.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprintln(out, "usage: go run . [options]")
		set.SetOutput(out)
		set.PrintDefaults()
		return nil
	case err != nil:
		return fmt.Errorf("%w; -h lists the options", err)
	case set.NArg() > 0:
		return fmt.Errorf("unexpected argument %q; -h lists the options", set.Arg(0))
	}
	if short {
		c.effort = effort{
			keys: 6000, lookups: 1500, coldLookups: 40, levels: 3, limit: 100 * time.Millisecond, bits: c.effort.bits,
		}
	}
	return c.makeFigures(ctx, out)
}

// makeFigures measures and draws both figures.
func (c config) makeFigures(ctx context.Context, out io.Writer) error {
	data, err := benchmark.ReadDataset(c.keys, c.absent)
	if err != nil {
		return err
	}
	if some := sample(data, c.effort.keys); some != data {
		if err := some.Check(); err != nil {
			return err
		}
		data = some
	}
	// A folder that can't be made shows now, before the work.
	if err := os.MkdirAll(c.dir, 0o755); err != nil {
		return fmt.Errorf("-o: %w", err)
	}
	stores, err := os.MkdirTemp("", "shale-report-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(stores)
	r := &runner{effort: c.effort, dropAll: c.dropAll, data: data, absent: benchmark.Shuffle(data.Absent), dir: stores, out: out}
	m := benchmark.ThisMachine()
	fmt.Fprintf(out, "%s: %d keys, %d absent ones; %s/%s, %d CPUs, %s; Ctrl-C ends it\n",
		data.Name, len(data.Present), len(data.Absent), m.OS, m.Arch, m.CPUs, m.Go)
	for _, f := range []struct {
		file    string
		measure func(context.Context) ([]*cell, error)
		draw    func(*benchmark.Dataset, []*cell) figure
	}{
		{"f1-savings.svg", r.measureLevels, drawLevels},
		{"f2-curve.svg", r.measureBits, drawBits},
	} {
		cells, err := f.measure(ctx)
		if err != nil {
			return fmt.Errorf("%s: %w", f.file, err)
		}
		svg, err := f.draw(data, cells).draw()
		if err != nil {
			return fmt.Errorf("%s: %w", f.file, err)
		}
		file := filepath.Join(c.dir, f.file)
		if err := outfile.ReplaceBytes(file, svg); err != nil {
			return err
		}
		var table bytes.Buffer
		printTable(&table, cells)
		if _, err := fmt.Fprintf(out, "\n%s\n%s", file, table.Bytes()); err != nil {
			return err
		}
	}
	return nil
}
