package base

import (
	"context"
	"errors"
	"fmt"
)

// ContextError returns why ctx is done, or nil if it is not. The error is ctx.Err(), for
// errors.Is, and wraps the cause that the program has given, if there is one. All calls that a
// context can end return this error.
func ContextError(ctx context.Context) error {
	err := ctx.Err()
	if err == nil {
		return nil
	}
	cause := context.Cause(ctx)
	if errors.Is(cause, err) {
		return cause
	}
	return fmt.Errorf("%w: %w", err, cause)
}
