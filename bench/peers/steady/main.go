// Command steady measures how evenly a store takes writes: one writer puts random keys
// without a pause, next to readers, for as long as asked. It prints how long puts took,
// above all the slowest ones. Next to them it prints how long the disk itself takes for a
// small write and an fsync meanwhile, because no store can be steadier than its disk.
//
//	cd bench/peers && go run ./steady -t 20m
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
	"time"

	"github.com/shaledb/shale/bench/peers/internal/stores"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	c, err := parse(os.Args[1:], os.Stderr)
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err == nil {
		err = run(ctx, c, os.Stdout)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "steady:", err)
		os.Exit(1)
	}
}

// A config is what a run is asked to do.
type config struct {
	kind     stores.Kind
	dir      string
	took     time.Duration // of the whole run
	interval time.Duration // of one line of output
	probe    time.Duration // between two probes of the disk
	n        int           // distinct keys
	value    int           // bytes
	readers  int
	memtable int64 // bytes
	cache    int64 // bytes
	rate     float64
}

func parse(args []string, messages io.Writer) (config, error) {
	var c config
	var store string
	f := flag.NewFlagSet("steady", flag.ContinueOnError)
	f.SetOutput(messages)
	f.StringVar(&store, "store", "shale", "`name` of the store")
	f.StringVar(&c.dir, "dir", "", "`directory` in which the store is made, and removed at the end (default: that of temporary files)")
	f.DurationVar(&c.took, "t", 20*time.Minute, "how `long` to write")
	f.DurationVar(&c.interval, "every", 10*time.Second, "a line of output for so `long`")
	f.DurationVar(&c.probe, "probe", 100*time.Millisecond, "`time` between two probes of the disk")
	f.IntVar(&c.n, "n", 100_000_000, "`number` of different keys, written in no order again and again")
	f.IntVar(&c.value, "value", 100, "`bytes` of a value")
	f.IntVar(&c.readers, "readers", 1, "`goroutines` that look up random keys meanwhile")
	f.Int64Var(&c.memtable, "memtable", 64<<20, "`bytes` of a memtable")
	f.Int64Var(&c.cache, "cache", 256<<20, "`bytes` of the block cache")
	f.Float64Var(&c.rate, "rate", 0, "puts a `second`; 0: as many as the store takes")
	if err := f.Parse(args); err != nil {
		return c, err
	}
	var err error
	if c.kind, err = stores.Find(store); err != nil {
		return c, fmt.Errorf("-store: %w", err)
	}
	switch {
	case f.NArg() > 0:
		return c, fmt.Errorf("unknown argument %q", f.Arg(0))
	case c.took <= 0 || c.interval <= 0 || c.probe <= 0:
		return c, errors.New("-t, -every and -probe must be above 0")
	case c.n < 1 || c.readers < 0 || c.rate < 0:
		return c, errors.New("-n is at least 1, -readers and -rate at least 0")
	case c.value < 16:
		return c, fmt.Errorf("-value is %d, but at least 16 bytes are needed to check values", c.value)
	case c.memtable < 1<<16 || c.cache < 0:
		return c, errors.New("-memtable is at least 65536, -cache at least 0")
	}
	return c, nil
}
