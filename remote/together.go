package remote

import (
	"context"
	"sync"
)

// together calls fn for the numbers from 0 to n - 1, at most limit of them at the same time, in
// ascending order of their beginning. After an error no call begins, and the context of those that
// have begun is done. It returns the first error once all calls have returned. With a limit of 1 the
// caller's goroutine makes the calls.
func together(ctx context.Context, limit, n int, fn func(ctx context.Context, i int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var calls sync.WaitGroup
	room := make(chan struct{}, max(limit, 1))
	for i := range n {
		select {
		case room <- struct{}{}:
		case <-ctx.Done():
		}
		if ctx.Err() != nil {
			break
		}
		call := func() {
			defer func() { <-room }()
			if err := fn(ctx, i); err != nil {
				cancel(err)
			}
		}
		if limit == 1 {
			call()
		} else {
			calls.Go(call)
		}
	}
	calls.Wait()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}
