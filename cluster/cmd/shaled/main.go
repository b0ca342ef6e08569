// Command shaled is a store for clients of Redis, alone or as a member of a replicated group:
//
//	shaled serve data
//	shaled serve data/a --id a --bootstrap --listen 127.0.0.1:7380 --addr 127.0.0.1:6380 --http 127.0.0.1:8380
//	shaled serve data/b --id b --join 127.0.0.1:7380 --listen 127.0.0.1:7381 --addr 127.0.0.1:6381 --http 127.0.0.1:8381
//	shaled members --at 127.0.0.1:8380
//
// docs/SHALED.md says what it promises, how to run it, and what its commands and figures are. `shaled help` lists
// its commands.
//
// The exit status is 0 when all is done, and 2 for an error. SIGTERM and Ctrl-C end a member in an orderly way: a leader
// hands the lead over first, and commands that have begun are answered.
//
// The program itself is package program; this one has only what a test can't have, the process.
package main

import (
	"os"
	"os/signal"
	"syscall"

	"github.com/shaledb/shale/cluster/cmd/internal/program"
	"github.com/shaledb/shale/internal/signals"
)

func main() {
	// If the reader of the output closes it, a write fails. Without this, a signal would end the program.
	signal.Ignore(syscall.SIGPIPE)
	ctx, stop := signals.UntilStop(0)
	defer stop()
	os.Exit(program.Run(ctx, program.Environment{Args: os.Args[1:], Out: os.Stdout, Err: os.Stderr, Getenv: os.Getenv}))
}
