// Command shale-remote keeps a store in a bucket, and makes stores from buckets:
//
//	shale-remote ship hosts.db s3://s3.eu-central-1.amazonaws.com/backups/hosts
//	shale-remote restore s3://s3.eu-central-1.amazonaws.com/backups/hosts copy.db --at 15m
//	shale-remote verify s3://s3.eu-central-1.amazonaws.com/backups/hosts
//
// The command shale has the same commands, and starts this program for them. It is a program of its own because
// its libraries would make shale several times as large.
//
// The exit status is that of shale: 0 for found or done, 1 for absent or damaged, and 2 for an error.
//
// Ctrl-C, SIGTERM and SIGHUP end a command in its own way: ship sends what is new first. A second signal, two
// seconds later or more, ends it at once.
package main

import (
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/mattn/go-isatty"

	"github.com/shaledb/shale/internal/signals"
	"github.com/shaledb/shale/remote/cmd/internal/program"
)

// again is how much later a second signal has to come to be meant as one. A terminal sends Ctrl-C to shale and to
// the program that it has started, and shale passes it on, so that the program gets it twice.
const again = 2 * time.Second

// main runs the command until it is done, or a signal ends its context.
func main() {
	// If the reader of the output closes it, a write fails. Without this, a signal would end the program.
	signal.Ignore(syscall.SIGPIPE)
	ctx, stop := signals.UntilStop(again)
	defer stop()
	os.Exit(program.Run(ctx, program.Environment{
		Args:     os.Args[1:],
		Out:      os.Stdout,
		Err:      os.Stderr,
		Getenv:   os.Getenv,
		Terminal: isatty.IsTerminal(os.Stderr.Fd()),
	}))
}
