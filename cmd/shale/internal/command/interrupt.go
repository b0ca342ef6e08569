package command

import (
	"context"
	"io"
	"os"
	"os/signal"
	"syscall"
)

// Ctrl-C ends a command. At a prompt the program goes on. The signals with which
// a terminal that is closed, a service manager, a container or timeout(1) ends a
// program end the command in the same way, and after it the program.
var (
	commandSignals = []os.Signal{os.Interrupt}
	programSignals = []os.Signal{syscall.SIGTERM, syscall.SIGHUP}
)

// untilSignal returns a context that the first of these signals ends. The second
// one has its usual effect. SIGHUP and SIGINT are still ignored if the parent of the
// process has made it ignore them, as nohup does, and a shell in the background.
func untilSignal(ctx context.Context, signals []os.Signal) (context.Context, context.CancelFunc) {
	var heard []os.Signal
	for _, sig := range signals {
		if !signal.Ignored(sig) {
			heard = append(heard, sig)
		}
	}
	if len(heard) == 0 {
		return context.WithCancel(ctx) // NotifyContext takes no signals for all signals
	}
	ctx, stop := signal.NotifyContext(ctx, heard...)
	context.AfterFunc(ctx, stop)
	return ctx, stop
}

// untilDone returns a reader of r whose Read gives ctx's error when ctx ends,
// even if r, a terminal or a pipe, goes on waiting: then r must not be used any
// more.
func untilDone(ctx context.Context, r io.Reader) io.Reader {
	return &doneReader{ctx: ctx, r: r, buf: make([]byte, 64<<10), result: make(chan readResult, 1)}
}

type doneReader struct {
	ctx    context.Context
	r      io.Reader
	buf    []byte // of the Read under way: the caller's may be gone when it ends
	result chan readResult
}

type readResult struct {
	n   int
	err error
}

func (d *doneReader) Read(p []byte) (int, error) {
	if err := d.ctx.Err(); err != nil {
		return 0, err
	}
	buf := d.buf[:min(len(p), len(d.buf))]
	go func() {
		n, err := d.r.Read(buf)
		d.result <- readResult{n, err}
	}()
	select {
	case <-d.ctx.Done():
		return 0, d.ctx.Err()
	case r := <-d.result:
		return copy(p, buf[:r.n]), r.err
	}
}
