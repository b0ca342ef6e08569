package main

import (
	"context"
	"io"
)

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
