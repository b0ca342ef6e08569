// Command interceptor keeps requests for users who do not exist away from a SQL database. It
// has an HTTP middleware (Middleware) that asks a Bloom filter for the id of each request, and
// the filter (IDs), which follows the table while users are added.
//
// # Run it
//
//	cd examples/database
//	go run ./interceptor
//
// This starts two servers on 127.0.0.1 that answer from the same table, sends the same
// requests to both, and prints
//
//	20000 requests for 10000 users; 17941 are for users who do not exist.
//	              queries  answers 404     time
//	without         20000        17941    2.47s
//	with             2087        17941    2.04s
//	The filter of 18880 bytes stopped 17913 of the 17941.
//
// The hash function has a new secret each time, so a few more or fewer may be stopped.
// Most of the time goes into HTTP on one connection. What counts are the queries.
//
// A server to play with, until Ctrl-C, with its table in a file:
//
//	go run ./interceptor -listen 127.0.0.1:8080 -db users.sqlite
//	curl -X PUT -d 'hello' 127.0.0.1:8080/users/ann
//	curl 127.0.0.1:8080/users/ann
//	curl 127.0.0.1:8080/users/nobody
//	curl 127.0.0.1:8080/metrics
//	curl -X POST 127.0.0.1:8080/reload
//
// # Why no answer is wrong
//
// A user is added to the filter before the row is committed (IDs.Insert), so whoever can find
// the row can pass the filter. A reload builds a second filter from the table while the first
// one answers. A row may be committed after the reload has read the table; its id then enters
// both filters. A row that is being committed when the reload begins is waited for.
//
// All programs that add users must do so through one IDs. If the database has other writers,
// an unknown id is not certainly absent, and this example is not for you. Package guard, next
// to this one, measures such filters together with a cache.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"
)

// A config is what the flags set.
type config struct {
	listen, db      string
	users, requests int
	absent          float64 // share of the requests
}

// parseFlags returns the config. It prints the usage to out if the flags are wrong.
func parseFlags(args []string, out io.Writer) (config, error) {
	var c config
	set := flag.NewFlagSet("interceptor", flag.ContinueOnError)
	set.SetOutput(out)
	set.StringVar(&c.listen, "listen", "", "serve on this address until interrupted, and measure nothing")
	set.StringVar(&c.db, "db", "", "file of the database for -listen")
	set.IntVar(&c.users, "users", 10_000, "number of users for the measurement")
	set.IntVar(&c.requests, "n", 20_000, "number of requests for the measurement")
	set.Float64Var(&c.absent, "absent", 0.9, "share of requests for users who do not exist")
	if err := set.Parse(args); err != nil {
		return c, err
	}
	bad := ""
	switch {
	case set.NArg() > 0:
		bad = "there are no arguments but flags"
	case (c.listen == "") != (c.db == ""):
		bad = "-listen and -db belong together"
	case c.users < 1 || c.requests < 1:
		bad = "-users and -n are above 0"
	case !(c.absent >= 0 && c.absent <= 1):
		bad = "-absent is from 0 to 1"
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
	switch {
	case err != nil:
	case c.listen != "":
		err = serve(ctx, c, os.Stdout)
	default:
		err = measure(ctx, c, os.Stdout)
	}
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "interceptor:", err)
		os.Exit(1)
	}
}

// serve answers on c.listen until ctx is done.
func serve(ctx context.Context, c config, out io.Writer) (err error) {
	u, err := openUsers(ctx, c.db)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, u.db.Close()) }()
	ids, err := NewIDs(ctx, u)
	if err != nil {
		return err
	}
	_, handler := newServer(u, ids)
	address, stop, err := start(c.listen, handler)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "http://%s/users/ answers; Ctrl-C ends it.\n", address)
	<-ctx.Done()
	return stop()
}

// start serves in the background. stop ends it, and waits for requests that have begun.
func start(listen string, handler http.Handler) (address string, stop func() error, err error) {
	l, err := net.Listen("tcp", listen)
	if err != nil {
		return "", nil, err
	}
	s := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	return l.Addr().String(), func() error {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		err := s.Shutdown(ctx)
		if e := <-served; !errors.Is(e, http.ErrServerClosed) {
			err = errors.Join(err, e)
		}
		return err
	}, nil
}

// tempUsers returns a table of n users in a new folder. remove closes and removes it.
func tempUsers(ctx context.Context, n int) (u *users, remove func() error, err error) {
	dir, err := os.MkdirTemp("", "interceptor")
	if err != nil {
		return nil, nil, err
	}
	if u, err = openUsers(ctx, filepath.Join(dir, "users.sqlite")); err != nil {
		return nil, nil, errors.Join(err, os.RemoveAll(dir))
	}
	remove = func() error { return errors.Join(u.db.Close(), os.RemoveAll(dir)) }
	if err := u.fill(ctx, n); err != nil {
		return nil, nil, errors.Join(err, remove())
	}
	return u, remove, nil
}
