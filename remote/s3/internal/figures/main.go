// Command figures measures what it costs that most tables of a store are in a bucket only: requests, times next to those of a
// store that has all its tables, and the room that it takes.
//
//	go run ./internal/figures -n 50000000
//
// starts versitygw on this machine, makes the same store twice in it, once with all tables on the local disk and once with a
// twentieth of their bytes, and prints a table with a goal for each figure. Options:
//
//	-n 1000000        entries, of 16 bytes of key and 100 of value
//	-part 20          the local disk has this part of the tables' bytes
//	-bucket PLACE     make the stores in this bucket, named as for shale-remote, and not on a server of its own
//	-dir DIR          make the stores' directories in DIR (default: that of temporary files)
//	-table BYTES      the size of tables; with a small one a store has as many as a large store
//	-bits 16          bits of filters for each key: a time of an absent key has that of a GET for each false positive
//	-ask 100000       absent keys that are asked for, three times
//
// Both stores write to the same server, one after the other. All other times are the best of three rounds, in turns. They
// depend on the machine, and with a small store on chance; requests do not.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/shaledb/shale/remote"
	"github.com/shaledb/shale/remote/s3"
	"github.com/shaledb/shale/remote/s3/s3test"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	c, err := parse(os.Args[1:])
	if err == nil {
		_, err = run(ctx, c, os.Stdout, os.Stderr)
	}
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "figures:", err)
		os.Exit(1)
	}
}

// A config is what the options say.
type config struct {
	n, lookups  int
	part        int64
	table       int64 // 0: by the room
	bits        float64
	bucket, dir string
}

// parse returns what args say.
func parse(args []string) (c config, err error) {
	set := flag.NewFlagSet("figures", flag.ContinueOnError)
	set.IntVar(&c.n, "n", 1_000_000, "entries")
	set.IntVar(&c.lookups, "ask", 100_000, "absent keys that are asked for, three times")
	set.Int64Var(&c.part, "part", 20, "the local disk has this part of the tables' bytes")
	set.Int64Var(&c.table, "table", 0, "the size of tables in bytes (default: as the room asks for, up to 16 MiB)")
	set.Float64Var(&c.bits, "bits", 16, "bits of filters for each key")
	set.StringVar(&c.bucket, "bucket", "", "make the stores in this bucket (default: on a server of its own)")
	set.StringVar(&c.dir, "dir", "", "make the stores' directories in this one")
	if err := set.Parse(args); err != nil {
		return c, err
	}
	switch {
	case c.n < 50_000:
		return c, fmt.Errorf("-n is %d: with fewer than 50,000 entries nothing is evicted", c.n)
	case c.lookups < 100 || c.part < 2 || c.table < 0 || set.NArg() > 0:
		return c, errors.New("-ask is at least 100, -part at least 2, -table a size, and there are no other arguments; -h lists them")
	}
	return c, nil
}

// run measures all figures, and prints them to out. What it is at goes to notes.
func run(ctx context.Context, c config, out, notes io.Writer) (all []figure, err error) {
	dir, err := os.MkdirTemp(c.dir, "shale-figures-")
	if err != nil {
		return nil, err
	}
	defer func() { err = cmp.Or(err, os.RemoveAll(dir)) }()
	open, stop, err := buckets(ctx, c, dir)
	if err != nil {
		return nil, err
	}
	defer stop()
	b := &bench{ctx: ctx, config: c, notes: notes}
	if err := b.makeStores(dir, open); err != nil {
		return nil, err
	}
	defer func() { err = cmp.Or(err, b.close()) }()
	for _, measure := range []func() error{b.quiet, b.absent, b.present, b.scan, b.reopen, b.compaction, b.room} {
		if err := measure(); err != nil {
			return nil, err
		}
	}
	b.print(out)
	return b.figures, nil
}

// buckets returns how to open the bucket of a store with a name. stop ends the server, if there is one.
func buckets(ctx context.Context, c config, dir string) (open func(name string) (remote.Bucket, error), stop func(), err error) {
	place, stop := s3.Place{}, func() {}
	if c.bucket != "" {
		place, err = s3.ParsePlace(c.bucket)
	} else if err = os.Mkdir(dir+"/server", 0o755); err == nil {
		var server *s3test.Server
		if server, stop, err = s3test.Run(dir + "/server"); err == nil {
			place.Server, err = server.MakeBucket(ctx, "figures")
		}
	}
	return func(name string) (remote.Bucket, error) { return place.Below(name).Open(ctx) }, stop, err
}
