package command

import (
	"context"
	"errors"
	"time"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/cmd/shale/internal/output"
	"github.com/shaledb/shale/internal/base"
)

// ttlCommand prints when values expire.
func ttlCommand() *Command {
	c := newCommand("ttl KEY...", Reads, "print when values expire", `
Prints each key with never, absent, or the time at which its value is gone and how long that is from now. Status 1 if
any key is absent.`)
	c.keys = -1
	return c.does(func(ctx context.Context, s *Session, words []Word) (Status, error) {
		l := s.List("key", "expires", "in")
		all := true
		for _, w := range words {
			if err := ctx.Err(); err != nil {
				return Failed, err
			}
			at, err := s.reader().ExpiresAt(w.bytes())
			expires, in := expiryWords(at)
			switch {
			case errors.Is(err, shale.ErrNotFound):
				expires, all = "absent", false
			case err != nil:
				return Failed, err
			}
			if err := l.Row(output.ByteCell(w.bytes()), output.Cell{Text: expires}, output.Cell{Text: in}); err != nil {
				return Failed, err
			}
		}
		return foundIf(all), l.End()
	})
}

// expiryWords returns the time at which a value is gone, and how long that is from now.
func expiryWords(at time.Time) (expires, in string) {
	if at.IsZero() {
		return "never", "-"
	}
	return at.UTC().Format(time.RFC3339), base.FormatDuration(time.Until(at).Round(time.Second))
}
