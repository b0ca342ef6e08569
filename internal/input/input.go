// Package input reads what people type or pipe into a program, for the examples.
package input

import (
	"context"
	"io"
)

// Interruptible returns a reader of r until ctx is done, also while r is waiting for a
// line to be typed. That last read of r goes on, and what it reads is lost. flush,
// if it is not nil, is called before each wait, so that what was found is seen.
func Interruptible(ctx context.Context, r io.Reader, flush func() error) io.Reader {
	return &interruptible{ctx: ctx, r: r, flush: flush}
}

type interruptible struct {
	ctx   context.Context
	r     io.Reader
	flush func() error
	buf   [32 << 10]byte // r's: a read that is left alone still writes to it
}

func (i *interruptible) Read(p []byte) (int, error) {
	if err := i.ctx.Err(); err != nil {
		return 0, err
	}
	if i.flush != nil {
		if err := i.flush(); err != nil {
			return 0, err
		}
	}
	var n int
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		n, err = i.r.Read(i.buf[:min(len(p), len(i.buf))])
	}()
	select {
	case <-done:
		return copy(p, i.buf[:n]), err
	case <-i.ctx.Done():
		return 0, i.ctx.Err()
	}
}
