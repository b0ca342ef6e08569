// Package signals has a context that ends when the process gets a signal to stop.
package signals

import (
	"context"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"
)

// UntilStop is Until with the signals by which people, terminals and service managers end a program.
func UntilStop(again time.Duration) (context.Context, context.CancelFunc) {
	return Until(context.Background(), again, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
}

// Until returns a context that ends with ctx, or at the first of the signals. One that comes more than again later has
// its usual effect: it ends the process. A signal that the parent of the process has made it ignore, as nohup and shells
// with background jobs do, stays ignored.
func Until(ctx context.Context, again time.Duration, signals ...os.Signal) (context.Context, context.CancelFunc) {
	heard := slices.DeleteFunc(slices.Clone(signals), signal.Ignored)
	if len(heard) == 0 {
		return context.WithCancel(ctx) // without signals, NotifyContext would take all of them
	}
	ctx, stop := signal.NotifyContext(ctx, heard...)
	context.AfterFunc(ctx, func() { time.AfterFunc(again, stop) })
	return ctx, stop
}
