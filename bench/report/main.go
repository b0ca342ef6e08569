// Command report measures what filters save and what they cost, and draws it:
//
//	cd bench/report && go run . -o DIR
//
// DIR gets report.html, the figures F1 to F7 as SVG and, where there is a Chromium, as
// PNG, and results.json. It takes two to five minutes. experiments.go lists what is
// measured. Each experiment varies one thing, on stores of its own, and reads each of
// them with filters ignored, on, on, and ignored again. Seeds are fixed, so that the
// counts are the same in every run.
//
// It is a module of its own, so that the module of the store stays small. Package
// internal/benchmark of that module has the keys, and checks the counts.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
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
	only         string
	redraw       bool
	short        bool
	dropAll      bool
	test         *effort // for tests, instead of the usual one
}

// run makes the report that args ask for.
func run(ctx context.Context, args []string, out io.Writer) error {
	var c config
	set := flag.NewFlagSet("report", flag.ContinueOnError)
	set.SetOutput(io.Discard) // main prints the error
	set.StringVar(&c.dir, "o", "shale-report", "write report.html, results.json and figures into this `directory`")
	set.StringVar(&c.keys, "keys", "", "load the lines of this `file` (with -absent; default: half of the lines of the Go sources)")
	set.StringVar(&c.absent, "absent", "", "ask for the lines of this `file` (with -keys)")
	set.StringVar(&c.only, "only", "", "measure these `figures` only (as F1,F3) and keep the others' results")
	set.BoolVar(&c.redraw, "redraw", false, "measure nothing: draw the results.json of an earlier run again")
	set.BoolVar(&c.short, "short", false, "few keys, in seconds: to see what a report looks like")
	set.BoolVar(&c.dropAll, "drop-caches", false, "for cold reads, also make the system drop all its caches (needs root, slows other programs down)")
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
	return c.makeReport(ctx, out)
}
