// Command guard shows a guard against cache penetration: requests for users that do not
// exist. A cache of users cannot answer them, so each of them reaches the database. A
// filter of the names in front of the database, or shale's MayContain, knows without a
// query that nearly all of these users are absent.
//
// # Run it
//
//	cd examples/database
//	go run ./guard                                  made-up names
//	go run ./guard -names names.txt -absent 0.5     those of a file; -help tells the rest
//
// It prints:
//
//	200000 users; 300570 requests: 60186 for users that are there, 240099 for others, 285 to sign up; a cache of 5000 answers
//
//	                        way  queries  in vain  expected     p50      p99  requests/s  filters  wrong
//	                cache alone   255607   240099    240099  6.7 µs  93.7 µs       46722  0.00 MB      0
//	  cache of absent users too   264896   240099    240099  7.1 µs  71.8 µs       41585  0.00 MB      0
//	           cache and filter    15927      432       418  0.2 µs  17.7 µs      285793  0.38 MB      0
//	            cache and shale    15530        3         4  0.2 µs  17.1 µs      448218  0.60 MB      0
//
//	Of 255607 queries the filter saved 239680 (93.8 %) and shale 240077 (93.9 %), with no wrong answer: ...
//
// The database is SQLite in the same process, and its file is in the page cache. With a
// database behind a network, each query that is saved also saves a round trip.
//
// # What keeps it right
//
// A guard may say maybe too often, but never no too often. So a name is added to the guard
// before the row is written, and in shale the name is durable then. A guard in memory is
// loaded from the table before the first request. Every answer is compared with the right
// one, also for users who sign up meanwhile. A wrong answer makes the command fail.
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

// A config is what the flags set.
type config struct {
	names                           string
	users, requests, clients, cache int
	absent, signUps, zipf           float64
	seed                            uint64
}

func parseFlags(args []string, messages io.Writer) (config, error) {
	var c config
	f := flag.NewFlagSet("guard", flag.ContinueOnError)
	f.SetOutput(messages)
	f.StringVar(&c.names, "names", "", "`file` of names of users, one a line (default: made-up ones)")
	f.IntVar(&c.users, "users", 200_000, "largest number of `users` in the database")
	f.IntVar(&c.requests, "n", 300_000, "`requests`")
	f.IntVar(&c.clients, "clients", 4, "number of `clients` that ask at the same time")
	f.IntVar(&c.cache, "cache", 5_000, "number of `answers` that the cache keeps")
	f.Float64Var(&c.absent, "absent", 0.8, "`share` of requests for users that do not exist")
	f.Float64Var(&c.signUps, "signups", 0.001, "`share` of requests to sign up")
	f.Float64Var(&c.zipf, "zipf", 1.1, "`exponent` of Zipf's law for requests for existing users, above 1")
	f.Uint64Var(&c.seed, "seed", 1, "`number` that chooses the requests")
	if err := f.Parse(args); err != nil {
		return c, err
	}
	return c, c.validate(f.NArg())
}

func (c config) validate(extra int) error {
	switch {
	case extra > 0:
		return errors.New("there are only flags, and no arguments")
	case c.users < 1 || c.requests < 1 || c.clients < 1 || c.cache < 1:
		return errors.New("-users, -n, -clients and -cache have to be above 0")
	case c.clients > 1000:
		return errors.New("-clients has to be at most 1000: each has a connection")
	case !(c.absent >= 0 && c.signUps >= 0 && c.absent+c.signUps <= 1):
		return errors.New("-absent and -signups have to be from 0 to 1, and their sum, too")
	case !(c.zipf > 1 && c.zipf <= 10):
		return errors.New("-zipf has to be above 1, and at most 10")
	}
	return nil
}

func main() {
	c, err := parseFlags(os.Args[1:], os.Stderr)
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err == nil {
		err = run(ctx, c, os.Stdout)
	}
	if err != nil && ctx.Err() != nil { // the interrupt may have caused any error
		err = errors.New("interrupted")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "guard:", err)
		os.Exit(1)
	}
}

// run measures all ways in a temporary directory. It returns an error if an
// answer was wrong.
func run(ctx context.Context, c config, out io.Writer) (err error) {
	names, err := readNames(c)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "guard-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	l, err := newLoad(ctx, c, names)
	if err != nil {
		return err
	}
	results, err := measureAll(ctx, c, dir, names, l)
	if err != nil {
		return err
	}
	for _, r := range results {
		if r.wrong > 0 {
			return fmt.Errorf("%s gave %d wrong answers", r.way, r.wrong)
		}
	}
	return report(out, c, len(names), l, results)
}
