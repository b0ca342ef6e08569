package program

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// again is how much later a second signal has to come to be meant as one. A terminal sends Ctrl-C to shale and to
// the program that it has started, and shale passes it on, so that the program gets it twice.
const again = 2 * time.Second

// UntilSignal returns a context that the first signal ends. A later one ends the process. A signal that the
// parent of the process has made it ignore, as nohup does, stays ignored.
func UntilSignal() (context.Context, context.CancelFunc) {
	var heard []os.Signal
	for _, sig := range []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP} {
		if !signal.Ignored(sig) {
			heard = append(heard, sig)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	if len(heard) == 0 {
		return ctx, cancel // without signals, Notify would take all of them
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, heard...)
	go func() { // for the life of the process
		<-signals
		first := time.Now()
		cancel()
		for range signals {
			if time.Since(first) >= again {
				os.Exit(failed)
			}
		}
	}()
	return ctx, cancel
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
