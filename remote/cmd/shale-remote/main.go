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

	"github.com/shaledb/shale/remote/cmd/internal/program"
)

func main() {
	// If the reader of the output closes it, a write fails. Without this, a signal would end the program.
	signal.Ignore(syscall.SIGPIPE)
	ctx, stop := program.UntilSignal()
	defer stop()
	os.Exit(program.Run(ctx, program.Environment{
		Args:     os.Args[1:],
		Out:      os.Stdout,
		Err:      os.Stderr,
		Getenv:   os.Getenv,
		Terminal: program.IsTerminal(os.Stderr),
	}))
}
