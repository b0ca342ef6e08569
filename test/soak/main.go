// Command soak runs a store under a mixed load, kills and faults for as long as
// it is told, checks every answer, and looks for what grows.
//
//	go run ./test/soak -t 30m
//
// A parent keeps one child after the other at work on a store in a directory of
// the real file system: lives. A child opens the store, compares all that is in
// it with what must be there, and then uses it from many goroutines; it closes
// and opens it again under other options several times: sessions. Lives end by
// SIGKILL, at any moment, or are told to end. In some the file system fails for
// moments (storms).
//
// Each client has keys of its own, and does the steps of package harness on the
// store and on the model of its keys (client.go). A journal says how many commits
// of each step are there, a write call each. The parent reads it when the child
// is dead, draws the same steps again, and gives the next child the states that
// follow.
//
// All choices come from the seed, the number of the life and that of the
// session; how they fall together in time does not.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"time"
)

// config is what the command line says.
type config struct {
	time  time.Duration
	dir   string
	seed  uint64
	keys  int           // of a client
	every time.Duration // between two lines of figures
	limit time.Duration // of each life

	// between is called between two lives with the store's directory. Tests do
	// harm there.
	between func(store string)
}

func main() {
	if isChild() {
		os.Exit(childMain(os.Stdout))
	}
	var c config
	flag.DurationVar(&c.time, "t", 10*time.Minute, "`how long`")
	flag.StringVar(&c.dir, "dir", "", "work in a new directory below this `directory` (default: that of temporary files)")
	flag.Uint64Var(&c.seed, "seed", uint64(time.Now().UnixNano()), "repeat the run with this `number`")
	flag.IntVar(&c.keys, "keys", 2500, "`how many` keys each client can have at most")
	flag.DurationVar(&c.every, "every", time.Minute, "`time` between two lines of figures")
	flag.Parse()
	if flag.NArg() > 0 {
		fmt.Fprintf(os.Stderr, "soak: unexpected argument %q\n", flag.Arg(0))
		os.Exit(2)
	}
	c.limit = c.time / 4
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, c, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "soak:", err)
		os.Exit(1)
	}
}

// errFinding says that a run has found something and told of it.
var errFinding = errors.New("there is a finding")

// run soaks a store and writes figures to out.
func run(ctx context.Context, c config, out io.Writer) error {
	if c.time <= 0 || c.every <= 0 || c.keys <= 0 {
		return errors.New("-t, -every and -keys must be above zero")
	}
	dir, err := os.MkdirTemp(c.dir, "soak-")
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "soak of %v, seed %d, in %s\nrepeat: go run ./test/soak -t %v -keys %d -seed %d\n",
		c.time, c.seed, dir, c.time, c.keys, c.seed)
	p := newParent(c, dir, out)
	if err := p.run(ctx); err != nil {
		fmt.Fprintf(out, "kept: %s\n", dir)
		return err
	}
	return os.RemoveAll(dir)
}
