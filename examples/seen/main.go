// Command seen recommends items that a user has not been shown before. The store has a
// value for each user: a filter of the items that the user was shown. Each request reads
// the filter, asks it, adds to it and writes it back. The command is a complete example of
// sketch.Scalable, which grows with the number of items that a user has seen.
//
// # Try it
//
// In a clone, with a list of items, one a line, the most popular first:
//
//	printf 'anna\nbert 3\nanna\n' | go run ./examples/seen -db seen.db -items top-domains-10k.txt
//	go run ./examples/seen -db sim.db -items top-domains-10k.txt -simulate 20000 -users 1000
//
// The second prints
//
//	20000 requests: 200000 items were shown, 0 of them twice.
//	Of 200482 items new to a user 482 were withheld: 0.240 %, predicted 0.228 %. They stay withheld: they were proposed 53 times more.
//	1000 users were shown 200.0 items each; 0.41 % of the items that they have not seen are withheld now.
//	A user's filter has 568 bytes and saves 65 % of a list of ids of 8 bytes, which has 1600.
//
// # What the answers mean
//
// An item that a user was shown is never shown to this user again. A few items that were
// not shown are taken for shown, and are never shown either. Nobody misses them if there
// are more items than anybody can see. A filter takes less memory than a list from about 30
// items a user up; below, its first layer is larger.
//
// Items are recorded before they are shown, and two requests of one user wait for each
// other. That is enough, because only one process can have the store open.
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

	"github.com/shaledb/shale"
)

// A config is what the flags set.
type config struct {
	db, items string
	n         int
	capacity  uint64
	fpr       float64
	simulate  int
	users     int
	seed      uint64
}

// parseFlags returns the config. It prints the usage to out if the arguments are wrong.
func parseFlags(args []string, out io.Writer) (config, error) {
	var c config
	set := flag.NewFlagSet("seen", flag.ContinueOnError)
	set.SetOutput(out)
	set.StringVar(&c.db, "db", "", "directory of the store")
	set.StringVar(&c.items, "items", "", "file of the items, one a line, the most popular first")
	set.IntVar(&c.n, "n", 10, "number of items to recommend, if the request does not say")
	set.Uint64Var(&c.capacity, "capacity", 100, "number of items for which the filter of a new user is made; it grows after that")
	set.Float64Var(&c.fpr, "fpr", 0.01, "the largest share of items that filters may withhold although the user has not seen them")
	set.IntVar(&c.simulate, "simulate", 0, "instead of reading requests, make this many and check all answers")
	set.IntVar(&c.users, "users", 1000, "with -simulate: number of users")
	set.Uint64Var(&c.seed, "seed", 1, "with -simulate: seed of the requests")
	if err := set.Parse(args); err != nil {
		return c, err
	}
	bad := ""
	switch {
	case set.NArg() > 0:
		bad = "requests are read from standard input: there are no arguments but flags"
	case c.db == "" || c.items == "":
		bad = "-db and -items say where the store and the items are"
	case c.n < 1 || c.n > maxN:
		bad = fmt.Sprintf("-n is from 1 to %d", maxN)
	case c.capacity < 1 || c.capacity > 1<<20:
		bad = "-capacity is from 1 to 2^20"
	case !(c.fpr >= 1e-6 && c.fpr <= 0.5):
		bad = "-fpr is from 1e-6 to 0.5"
	case c.simulate < 0 || c.users < 1:
		bad = "-simulate is 0 or more, and -users 1 or more"
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
		fmt.Fprintln(os.Stderr, "seen:", err)
		os.Exit(1)
	}
}

// run answers requests until they end or ctx is done, and then prints a summary.
func run(ctx context.Context, c config, requests io.Reader, stdout io.Writer) (err error) {
	out := bufio.NewWriter(stdout)
	defer func() { err = errors.Join(err, out.Flush()) }()
	items, err := readItems(c.items)
	if err != nil {
		return err
	}
	// A power cut may undo the writes of the last tenth of a second. The items of
	// these requests may be shown again. SyncEach would prevent that, at the cost
	// of an fsync for each request.
	db, err := shale.Open(c.db, &shale.Options{Durability: shale.SyncPeriodic})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	s := newService(c, db, items)
	if c.simulate > 0 {
		err = simulate(ctx, s, out)
	} else {
		err = serve(ctx, s, requests, out)
	}
	if err != nil && ctx.Err() == nil {
		return err
	}
	return s.summary(out)
}

// readItems returns the lines of a file that are not empty.
func readItems(name string) ([]string, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close() // opened for reading
	var items []string
	s := bufio.NewScanner(f)
	for s.Scan() {
		if s.Text() != "" {
			items = append(items, s.Text())
		}
	}
	if err := s.Err(); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if len(items) == 0 {
		return nil, fmt.Errorf("%s: no items", name)
	}
	return items, nil
}
