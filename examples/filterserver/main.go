// Command filterserver answers over HTTP whether a key may be in a store. It has no
// store, and links none: a bundle of the store's filters is enough. It is a
// complete example of package bundle.
//
// # Try it
//
// In a clone, with a store in hosts.db (the README makes one):
//
//	go run ./cmd/shale filters export hosts.db hosts.filters
//	go run ./examples/filterserver -bundle hosts.filters
//
// and then, from another shell,
//
//	curl 'localhost:8080/may?key=www.example.org'            maybe or absent
//	curl --data-binary @hosts.txt localhost:8080/may         a key a line, an answer a line
//	curl localhost:8080/info                                 what is served, and what it saved
//
// # What the answers mean
//
// absent is certain for the state of the store from which the bundle was made; /info shows
// which that is. The client need not ask the store then. maybe is wrong for about one
// absent key in a hundred. A key that was written to the store later is answered with
// absent until there is a newer bundle. Where that matters, export after each change, and
// make sure that a bundle arrives before its keys are used.
//
// # Behaviour
//
// The server reads the bundle again when the file has changed, which it checks every few
// seconds, and on SIGHUP. Replace the file by a rename, as the command does. If the new
// file cannot be used, the server goes on with the old bundle, and the log says why. An
// interrupt ends the server after the requests that have begun.
//
// The size and the time of requests are limited. Each line of a POST ends with a newline; a
// carriage return before it is not part of the key.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// A config is what the flags set.
type config struct {
	file      string
	listen    string
	poll      time.Duration
	maxBundle int64
	maxBody   int64
}

func parseFlags(args []string, out io.Writer) (config, error) {
	var c config
	set := flag.NewFlagSet("filterserver", flag.ContinueOnError)
	set.SetOutput(out)
	set.StringVar(&c.file, "bundle", "", "the bundle of filters to serve")
	set.StringVar(&c.listen, "listen", "localhost:8080", "address to listen on")
	set.DurationVar(&c.poll, "poll", 2*time.Second, "how often to look whether the file has changed")
	set.Int64Var(&c.maxBundle, "max-bundle", 1<<30, "largest size of a bundle in bytes")
	set.Int64Var(&c.maxBody, "max-body", 1<<20, "largest size of a request in bytes")
	if err := set.Parse(args); err != nil {
		return c, err
	}
	if c.file == "" || set.NArg() > 0 || c.poll <= 0 {
		set.Usage()
		return c, errors.New("filterserver: -bundle must name a file, -poll must be above 0, and other arguments are not allowed")
	}
	return c, nil
}

func main() {
	c, err := parseFlags(os.Args[1:], os.Stderr)
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err != nil {
		log.Fatal(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP)
	listener, err := net.Listen("tcp", c.listen)
	if err == nil {
		err = run(ctx, c, listener, hangup, log.Printf)
	}
	if err != nil {
		log.Fatal(err)
	}
}

// run serves until ctx is done, and then waits up to ten seconds for requests that
// have begun. It closes listener.
func run(ctx context.Context, c config, listener net.Listener, hangup <-chan os.Signal, logf func(string, ...any)) error {
	s := &server{config: c, logf: logf}
	if err := s.load(); err != nil {
		return errors.Join(fmt.Errorf("filterserver: %w", err), listener.Close())
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		s.watch(ctx, hangup)
	}()
	defer func() { <-watched }()
	defer cancel() // runs before the wait
	h := &http.Server{
		Handler:           s.handler(),
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       30 * time.Second,
		WriteTimeout:      30 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    256 << 10, // a key in a URL may take three times its 64 KiB
	}
	logf("listening on %s", listener.Addr())
	served := make(chan error, 1)
	go func() { served <- h.Serve(listener) }()
	select {
	case err := <-served:
		return fmt.Errorf("filterserver: %w", err)
	case <-ctx.Done():
	}
	grace, end := context.WithTimeout(context.Background(), 10*time.Second)
	defer end()
	err := h.Shutdown(grace)
	logf("%s", s.saved())
	return err
}
