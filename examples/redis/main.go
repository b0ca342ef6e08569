// Command redis is a server that speaks the protocol of Redis and keeps everything in a
// store of shale: strings, and Bloom filters with the BF commands of RedisBloom. Whatever
// it has acknowledged is there after kill -9. The README next to this file shows a session,
// says how filters are kept, and compares the speed with that of redis-server.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/shaledb/shale/internal/resp"
	"github.com/shaledb/shale/vfs"
	"github.com/tidwall/redcon"
)

// A config is what the flags set.
type config struct {
	addr       string
	dir        string
	sync       string
	maxCommand int64
	maxFilter  int64
	maxClients int
	fs         vfs.FS // for tests; nil is the system's
}

// The values of -sync, which are those of appendfsync in Redis.
const (
	syncAlways   = "always"
	syncEverysec = "everysec"
	syncNo       = "no"
)

func parseFlags(args []string, out io.Writer) (config, error) {
	var c config
	set := flag.NewFlagSet("redis", flag.ContinueOnError)
	set.SetOutput(out)
	set.StringVar(&c.addr, "addr", "127.0.0.1:6380", "address to listen on")
	set.StringVar(&c.dir, "dir", "redis.db", "directory of the store; it is made if it does not exist")
	set.StringVar(&c.sync, "sync", syncEverysec, "when writes are synced: always (before the reply), everysec, or no (the system decides)")
	set.Int64Var(&c.maxCommand, "max-command", 64<<20, "largest size of a command with its arguments, in bytes; a larger one ends the connection")
	set.Int64Var(&c.maxFilter, "max-filter", 256<<20, "largest size of a Bloom filter, in bytes")
	set.IntVar(&c.maxClients, "max-clients", 1000, "largest number of connections at a time; further ones are refused")
	if err := set.Parse(args); err != nil {
		return c, err
	}
	switch {
	case set.NArg() > 0:
		return c, fmt.Errorf("redis: %q is not a flag; there are only flags, which -help lists", set.Arg(0))
	case c.sync != syncAlways && c.sync != syncEverysec && c.sync != syncNo:
		return c, fmt.Errorf("redis: -sync %q has to be always, everysec or no", c.sync)
	case c.maxCommand < 1<<10 || c.maxCommand > 128<<20:
		return c, fmt.Errorf("redis: -max-command %d has to be from 1 KiB to 128 MiB", c.maxCommand)
	case c.maxFilter < 1 || c.maxClients < 1:
		return c, errors.New("redis: -max-filter and -max-clients have to be above 0")
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
	inner, err := net.Listen("tcp", c.addr)
	if err == nil {
		err = run(ctx, c, inner, log.Printf)
	}
	if err != nil {
		log.Fatal(err)
	}
}

// grace is how long connections have to end after a signal.
const grace = 10 * time.Second

// run serves until ctx is done. Commands that have begun are then answered, and the store
// is closed. It closes inner.
func run(ctx context.Context, c config, inner net.Listener, logf func(string, ...any)) error {
	s, err := openServer(c, logf)
	if err != nil {
		return errors.Join(fmt.Errorf("redis: %w", err), inner.Close())
	}
	l := resp.NewListener(inner, resp.Limits{Command: c.maxCommand, Clients: c.maxClients})
	logf("listening on %s, store in %s, %d filters", inner.Addr(), c.dir, s.filters.count())
	served := make(chan error, 1)
	go func() { served <- redcon.Serve(l, s.handle, s.accept, s.closed) }()
	select {
	case err = <-served:
		err = errors.Join(errors.New("redis: the listener ended by itself"), err)
	case <-ctx.Done():
		l.Stop(grace)
		err = <-served
	}
	logf("stopped after %d commands", s.commands.Load())
	return errors.Join(err, s.close())
}
