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
//
// A read that waits can't be stopped from outside in Go. So it is left waiting, and its result is
// forgotten: the program ends soon, and at a prompt standard input is read by the editor only.
func untilDone(ctx context.Context, r io.Reader) io.Reader {
	return &doneReader{ctx: ctx, r: r, buf: make([]byte, 64<<10), result: make(chan readResult, 1)}
}

// A doneReader has at most one Read under way. Its result is taken by the caller that waits, or by
// nobody.
type doneReader struct {
	ctx    context.Context
	r      io.Reader
	buf    []byte // for the Read under way, which may end after the caller has dropped its own buffer
	result chan readResult
}

// A readResult is what a Read of the reader below has returned.
type readResult struct {
	n   int
	err error
}

// Read implements io.Reader. The read below goes into a buffer of its own, because it may end after
// this call has given up: the caller's buffer is then used for something else.
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
