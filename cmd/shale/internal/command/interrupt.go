package command

import (
	"context"
	"io"
	"os"
	"syscall"
)

// Ctrl-C ends a command. At a prompt the program goes on. Other signals end the command in the
// same way, and then the program. A terminal sends them when it is closed, and service
// managers, containers and timeout(1) send them to end a program.
var (
	commandSignals = []os.Signal{os.Interrupt}
	programSignals = []os.Signal{syscall.SIGTERM, syscall.SIGHUP}
)

// untilDone returns a reader of r whose Read returns ctx's error when ctx ends. It does so even
// if a read of r is still waiting, as on a terminal or a pipe. After that r must not be used
// any more.
func untilDone(ctx context.Context, r io.Reader) io.Reader {
	return &doneReader{ctx: ctx, r: r, buf: make([]byte, 64<<10), result: make(chan readResult, 1)}
}

type doneReader struct {
	ctx    context.Context
	r      io.Reader
	buf    []byte // for the Read under way, which may end after the caller has dropped its own buffer
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
