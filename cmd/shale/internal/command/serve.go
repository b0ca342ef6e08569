package command

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"time"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/cmd/shale/internal/output"
	"github.com/shaledb/shale/debug"
)

// serveAddr is on loopback, since the pages show keys.
const (
	serveAddr  = "localhost:6070"
	serveEvery = time.Second // how often, at most, a page reads what a writer has written
)

// serveCommand serves the pages of package debug for a store on disk. It opens the store read-only,
// takes no lock, and follows the program that writes. It ends with Ctrl-C, and then waits for
// requests under way.
func serveCommand() *Command {
	addr := serveAddr
	var values, public bool
	c := newCommand("serve", needsNothing, "show the store as a page for a browser", `
Shows the tree, its filters, its memory, and what a lookup of any key does, until Ctrl-C. It only reads, so the
store may be open in another program. While somebody looks at the page, it follows what that program writes.
Only the program that writes knows rates, compactions and stalls: mount debug.Handler there. Everybody who can
reach the address can see keys, but values only with --values.`)
	c.text(&addr, "addr", "HOST:PORT", "where to listen; default "+serveAddr)
	c.flag(&values, "values", "show values too")
	c.flag(&public, "public", "listen where other machines can reach it")
	return c.does(func(ctx context.Context, s *Session, _ []Word) (Status, error) {
		if err := checkAddr(addr, public); err != nil {
			return Failed, err
		}
		if s.Dir == "" {
			return Failed, ErrNoDir
		}
		db, err := shale.Open(s.Dir, &shale.Options{FS: s.fs, ReadOnly: true, Exist: shale.MustExist, OnEvent: s.onEvent})
		if err != nil {
			return Failed, openError(s.Dir, err)
		}
		defer db.Close() // it was open read-only
		listener, err := net.Listen("tcp", addr)
		if err != nil {
			return Failed, fmt.Errorf("serve: %w; --addr names another", err)
		}
		// With --public, names are not checked: other machines ask by names that this one may not
		// know.
		handler := servedPages(db, s.Dir, serveEvery, values)
		if !public {
			handler = ownNamesOnly(handler)
		}
		host, _, _ := net.SplitHostPort(addr)
		_, port, _ := net.SplitHostPort(listener.Addr().String())
		if host == "" {
			host = "localhost"
		}
		fmt.Fprintf(s.Out, "%s is shown at http://%s/ (read-only, follows its writer); Ctrl-C ends\n", output.Quote(s.Dir), net.JoinHostPort(host, port))
		if err := s.Out.Flush(); err != nil {
			_ = listener.Close() // the first error says more
			return Failed, err
		}
		return Found, serveUntilDone(ctx, listener, handler, s.Notes)
	})
}

// servedPages returns the pages of a store that is open read-only.
func servedPages(db *shale.DB, dir string, every time.Duration, values bool) http.Handler {
	name := filepath.Base(dir)
	if abs, err := filepath.Abs(dir); err == nil {
		name = filepath.Base(abs) // dir may be a dot
	}
	options := []debug.Option{debug.Title(name), debug.Follow(every, "Rates, compactions and stalls, and how lookups fare, "+
		"are known to the program that has the store open: mount debug.Handler there.")}
	if values {
		options = append(options, debug.ShowValues())
	}
	return debug.Handler(db, options...)
}

// serveUntilDone serves until ctx ends. Then it waits for the requests under way.
func serveUntilDone(ctx context.Context, listener net.Listener, handler http.Handler, notes *LockedWriter) error {
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second, ErrorLog: log.New(notes, "shale: ", 0)}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	// Browsers keep connections open and events streaming; these are cut off after some seconds.
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if err := server.Shutdown(grace); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return server.Close()
}

// checkAddr returns an error for an address that other machines can reach, unless public is set.
func checkAddr(addr string, public bool) error {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return fmt.Errorf("serve: --addr %s is not an address; write it as %s", output.Quote(addr), serveAddr)
	}
	if public || isOwn(host) {
		return nil
	}
	return fmt.Errorf("serve: other machines can reach %s and would see the keys of the store; give --public to allow that", output.Quote(addr))
}

// isOwn reports whether only this machine can reach it under the name host.
func isOwn(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// ownNamesOnly refuses requests whose Host is not a name for which isOwn is true. Otherwise a
// web site could give its own name the address 127.0.0.1. A browser would then let the pages of
// that site read what this server returns. This attack is called DNS rebinding.
func ownNamesOnly(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host := r.Host
		if h, _, err := net.SplitHostPort(host); err == nil {
			host = h
		}
		if !isOwn(strings.Trim(host, "[]")) {
			http.Error(w, "ask for localhost: another name needs --public", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}
