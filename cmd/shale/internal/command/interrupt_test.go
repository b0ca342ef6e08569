package command

import (
	"context"
	"errors"
	"io"
	"testing"
)

// Ctrl-C ends a command that waits for input.
func TestInterruptedInput(t *testing.T) {
	waiting, _ := io.Pipe()
	ctx, cancel := context.WithCancel(context.Background())
	go cancel()
	if _, err := io.ReadAll(untilDone(ctx, waiting)); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want %v", err, context.Canceled)
	}
}
