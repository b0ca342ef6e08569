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

// Until returns a context that the first SIGINT, SIGTERM or SIGHUP ends. One that comes more than again later has its
// usual effect: it ends the process. A signal that the parent of the process has made it ignore, as nohup does, stays
// ignored.
func Until(again time.Duration) (context.Context, context.CancelFunc) {
	signals := slices.DeleteFunc([]os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP}, signal.Ignored)
	if len(signals) == 0 {
		return context.WithCancel(context.Background()) // without signals, NotifyContext would take all of them
	}
	ctx, stop := signal.NotifyContext(context.Background(), signals...)
	context.AfterFunc(ctx, func() { time.AfterFunc(again, stop) })
	return ctx, stop
}
