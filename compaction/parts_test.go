package compaction

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// However one part fails, the others end, because their context is cancelled. The result is the
// failure, and not the cancellation that it caused.
func TestInParts_OneEndsAll(t *testing.T) {
	broken := errors.New("broken")
	for name, c := range map[string]struct {
		fail func() error
		want error
	}{
		"error":  {func() error { return broken }, broken},
		"goexit": {func() error { runtime.Goexit(); return nil }, errPartLeft},
		"panic":  {func() error { panic("of the file system") }, nil},
	} {
		for bad := range 4 {
			var ended atomic.Int64
			run := func() (p any, err error) {
				defer func() { p = recover() }()
				return nil, InParts(t.Context(), 4, func(ctx context.Context, i int) error {
					defer ended.Add(1)
					if i == bad {
						return c.fail()
					}
					<-ctx.Done()
					return fmt.Errorf("part %d: %w", i, ctx.Err())
				})
			}
			p, err := run()
			if ended.Load() != 4 {
				t.Errorf("%s of part %d: %d parts had ended when InParts returned", name, bad, ended.Load())
			}
			if c.want == nil {
				if text := fmt.Sprint(p); !strings.HasPrefix(text, "of the file system") || !strings.Contains(text, "parts_test.go") {
					t.Errorf("%s of part %d: the caller gets %v, want the panic and its stack", name, bad, p)
				}
			} else if !errors.Is(err, c.want) || p != nil {
				t.Errorf("%s of part %d: %v, %v; want %v", name, bad, err, p, c.want)
			}
		}
	}
}

// If the caller's context ends, all parts end, and the result is its error.
func TestInParts_Cancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var started sync.WaitGroup
	started.Add(3)
	go func() { started.Wait(); cancel() }()
	err := InParts(ctx, 3, func(ctx context.Context, _ int) error {
		started.Done()
		<-ctx.Done()
		return ctx.Err()
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("InParts: %v, want %v", err, context.Canceled)
	}
}
