package compaction

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
)

// A merge of many bytes is cut into parts, one for each worker that is free. The parts read the
// same inputs, each from its first key to that of the next part, and write tables of their own. One
// edit installs the tables of all parts. So a reader, a crash and a failure see the whole
// compaction or nothing of it, as if one goroutine had merged everything. Compare "subcompactions"
// of RocksDB, which are cut and installed in the same way.

// InParts calls part for the numbers from 0 to n-1, each on a goroutine of its own, and returns
// when all calls have ended. The first part that fails ends the others, because their ctx is
// cancelled. A part fails if it returns an error, panics or calls runtime.Goexit.
//
// The result is the error of the first part that failed by itself, and not the cancellation of
// another. A panic goes on in the goroutine of the caller, with the stack of the part in its text.
// The files that the parts have written then stay until the next Open removes them.
func InParts(ctx context.Context, n int, part func(ctx context.Context, i int) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	errs := make([]error, n)
	panics := make([]any, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			errs[i] = errPartLeft
			defer func() {
				if p := recover(); p != nil {
					panics[i] = fmt.Sprintf("%v\n\nin a part of a compaction:\n%s", p, debug.Stack())
				}
				if errs[i] != nil {
					cancel()
				}
			}()
			errs[i] = part(ctx, i)
		})
	}
	wg.Wait()
	for _, p := range panics {
		if p != nil {
			panic(p)
		}
	}
	return firstCause(errs)
}

// errPartLeft is the error of a part that has not returned.
var errPartLeft = errors.New("compaction: a part called runtime.Goexit")

// firstCause returns the error that made the other parts give up: the first that is not a
// cancellation. If there is none, it joins the cancellations; nil: there are none.
func firstCause(errs []error) error {
	for _, err := range errs {
		if err != nil && !errors.Is(err, context.Canceled) {
			return err
		}
	}
	return errors.Join(errs...)
}
