package program

import (
	"context"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"
)

// again is how much later a second signal has to come to be meant as one. A terminal sends Ctrl-C to shale and to
// the program that it has started, and shale passes it on, so that the program gets it twice.
const again = 2 * time.Second

// UntilSignal returns a context that the first signal ends. A later one ends the process. A signal that the
// parent of the process has made it ignore, as nohup does, stays ignored.
func UntilSignal() (context.Context, context.CancelFunc) {
	signals := slices.DeleteFunc([]os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP}, signal.Ignored)
	if len(signals) == 0 {
		return context.WithCancel(context.Background()) // without signals, NotifyContext would take all of them
	}
	ctx, stop := signal.NotifyContext(context.Background(), signals...)
	context.AfterFunc(ctx, func() { time.AfterFunc(again, stop) })
	return ctx, stop
}

// IsTerminal reports whether f is a character device, which is taken for a terminal, and not the null device.
func IsTerminal(f *os.File) bool {
	info, err := f.Stat()
	if err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return false
	}
	null, err := os.Stat(os.DevNull)
	return err != nil || !os.SameFile(info, null)
}
