// Command metricnames is the index of names of a time series database. For each sample that
// arrives it answers: is this metric name known? A new name is entered, up to a number of new
// names a second. It is a complete example of shale as a set: the filters of its tables answer
// for nearly all new names, without a read.
//
// # Try it
//
// In a clone, with made-up traffic, in a temporary folder:
//
//	go run ./examples/metricnames
//
// This takes the same samples twice, without filters and with them, and prints
//
//	200000 known names; 30 seconds with 5000 samples each; at most 1000 new names a second
//	                known    added  refused   blocks   filter bytes  new names/s
//	no filters     108031    11979    29990    41969              0       178403
//	filters        108031    11979    29990      439         250080      2656495
//
// "Blocks" are searches of blocks of the store for new names, and "new names/s" is how many
// names the index can find to be new in a second. (That is without writing those that are
// added. The rates are medians of five runs: 170,000 to 291,000 a second without filters, and
// 1.7 to 3.0 million with them.)
//
// With an index of its own, the command reads samples in Graphite's plain text protocol:
//
//	printf 'cpu.load 0.7 1952929021\ncpu.load 0.8 1952929022\ncpu.temp 41 1952929022\n' > samples.txt
//	go run ./examples/metricnames -db names.db < samples.txt
//	go run ./examples/metricnames -db names.db < samples.txt
//
// The second go run prints
//
//	new cpu.load
//	new cpu.temp
//	3 samples: 1 of known names, 2 of new ones, 0 refused, 0 not understood.
//	4 lookups found no name; 0 of them had to search a block.
//
// and the third finds that all names are known. A new name is looked up twice: the second
// time by PutIfAbsent, so that of two connections with the same new name one enters it.
//
// # Why new names matter
//
// Most samples are of known names, and are found in the store's cache. A new name has to be
// looked up in the whole index only to find that it is not there. There may be many of them
// at once: when a release gives all pods new names, or when a service puts the number of each
// request into a name. A limit keeps the second kind from filling the database. (-limit is
// for the seconds that the samples name. A server would take its own clock.) The filters make
// it cheap to refuse them, as the samples of known names have to wait for that.
//
// A filter alone would not do. It takes a new name for a known one now and then, and the
// series would be missing from the index for ever. Here the store decides after a maybe.
package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

// A config is what the flags set.
type config struct {
	db             string
	limit          int
	names, samples int // for the made-up traffic
}

// parseFlags returns the config. It prints the usage to out if the flags are wrong.
func parseFlags(args []string, out io.Writer) (config, error) {
	var c config
	set := flag.NewFlagSet("metricnames", flag.ContinueOnError)
	set.SetOutput(out)
	set.StringVar(&c.db, "db", "", "directory of an index, for samples from standard input; without it, made-up traffic is measured")
	set.IntVar(&c.limit, "limit", 1000, "new names a second; 0: any number")
	set.IntVar(&c.names, "names", 200_000, "known names at the beginning of made-up traffic")
	set.IntVar(&c.samples, "samples", 150_000, "samples of made-up traffic")
	if err := set.Parse(args); err != nil {
		return c, err
	}
	bad := ""
	switch {
	case set.NArg() > 0:
		bad = "there are no arguments but flags; samples come from standard input"
	case c.limit < 0:
		bad = "-limit is 0 or above"
	case c.names < 1 || c.samples < seconds:
		bad = fmt.Sprintf("-names is above 0, and -samples is at least %d", seconds)
	}
	if bad != "" {
		set.Usage()
		return c, errors.New(bad)
	}
	return c, nil
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	c, err := parseFlags(os.Args[1:], os.Stderr)
	if err == nil {
		err = run(ctx, c, os.Stdin, os.Stdout)
	}
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "metricnames:", err)
		os.Exit(1)
	}
}

// run reads samples or measures, and writes what it prints to stdout at the end.
func run(ctx context.Context, c config, stdin io.Reader, stdout io.Writer) (err error) {
	out := bufio.NewWriter(stdout)
	defer func() { err = errors.Join(err, out.Flush()) }()
	if c.db != "" {
		return read(ctx, c, stdin, out)
	}
	return compare(ctx, c, out)
}
