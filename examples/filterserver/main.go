// Command filterserver answers over HTTP whether a key may be in a store. It has no
// store, and links none: a bundle of the store's filters is enough. It is an example of package
// bundle.
//
// In a clone, with the command and a store in hosts.db (the README makes both):
//
//	shale hosts.db filters export hosts.filters
//	go run ./examples/filterserver -bundle hosts.filters
//
// and then, from another shell,
//
//	curl 'localhost:8080/may?key=www.example.org'            maybe or absent
//	curl --data-binary @hosts.txt localhost:8080/may         a key a line, an answer a line
//	curl localhost:8080/info                                 what is served, and what it saved
//
// absent is certain for the state of the store from which the bundle was made; /info shows
// which that is. The client need not ask the store then. maybe is wrong for about one
// absent key in a hundred. A key that was written to the store later is answered with
// absent until there is a newer bundle. Where that matters, export after each change, and
// make sure that a bundle arrives before its keys are used.
//
// The server reads the bundle again when the file has changed. Replace the file by a rename, as
// the command does. If the new file cannot be used, the server goes on with the old bundle, and
// the log says why. The size and the time of requests are limited.
package main

import (
	"context"
	"errors"
	"flag"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	file := flag.String("bundle", "", "the bundle of filters to serve")
	address := flag.String("listen", "localhost:8080", "address to listen on")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	listener, err := net.Listen("tcp", *address)
	if err == nil {
		err = run(ctx, *file, 2*time.Second, listener, log.Printf)
	}
	if err != nil {
		log.Fatal(err)
	}
}

// run serves until ctx is done, and then waits up to ten seconds for requests that have begun. It
// looks for a new file as often as poll says, and closes listener.
func run(ctx context.Context, file string, poll time.Duration, listener net.Listener, logf func(string, ...any)) error {
	s := &server{file: file, logf: logf}
	if err := s.load(); err != nil {
		return errors.Join(err, listener.Close())
	}
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
	tick := time.NewTicker(poll)
	defer tick.Stop()
	for {
		select {
		case err := <-served:
			return err
		case <-tick.C:
			if s.changed() {
				if err := s.load(); err != nil {
					logf("the bundle that was served stays: %v", err)
				}
			}
		case <-ctx.Done():
			grace, end := context.WithTimeout(context.Background(), 10*time.Second)
			defer end()
			return h.Shutdown(grace)
		}
	}
}
