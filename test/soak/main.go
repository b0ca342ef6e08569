// Command soak runs a store under a mixed load, kills and faults for as long as
// it is told, and checks every answer.
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
// What must be there is known at any time because each commit follows from the
// seed, its writer and its number (commit.go), writers own their keys, and a
// child notes in a journal, a write call each, which commits were acknowledged.
// The parent reads the journal when the child is dead, and gives the next one
// the state that follows (model.go).
//
// So the model is a number for each key, and not a harness.State. With 200,000
// keys a State takes 30 MB, and the one after a commit is a copy of 7 MB, which
// takes longer than the commit. The numbers take 1.6 MB. They are changed in
// place, by several writers at once, and readers compare them before and after a
// read. Options and storms are those of package harness.
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
	keys  int
	every time.Duration // between two lines of figures
	limit time.Duration // of each life

	// between is called between two lives with the store's directory. Tests do
	// harm there.
	between func(life int, store string)
}

func main() {
	if isChild() {
		os.Exit(childMain(os.Stdin, os.Stdout))
	}
	var c config
	flag.DurationVar(&c.time, "t", 10*time.Minute, "`how long`")
	flag.StringVar(&c.dir, "dir", "", "work in a new directory below this `directory` (default: that of temporary files)")
	flag.Uint64Var(&c.seed, "seed", 0, "repeat the run with this `number` (default: another one each time)")
	flag.IntVar(&c.keys, "keys", 200_000, "`how many` keys there can be at most")
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
	if c.time <= 0 || c.every <= 0 {
		return errors.New("-t and -every must be above zero")
	}
	if c.keys < writers*minSlots {
		return fmt.Errorf("-keys %d: there must be at least %d", c.keys, writers*minSlots)
	}
	if c.seed == 0 {
		c.seed = uint64(time.Now().UnixNano())
	}
	dir, err := os.MkdirTemp(c.dir, "soak-")
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "soak of %v, seed %d, in %s\nrepeat: go run ./test/soak -t %v -keys %d -seed %d\n",
		c.time, c.seed, dir, c.time, c.keys, c.seed)
	p := newParent(c, dir, out)
	p.tick = time.NewTicker(c.every)
	defer p.tick.Stop()
	if err := p.run(ctx); err != nil {
		fmt.Fprintf(out, "kept: %s\n", dir)
		return err
	}
	return os.RemoveAll(dir)
}
