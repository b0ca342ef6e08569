package command

import (
	"context"

	"github.com/shaledb/shale"
)

// delCommand deletes keys in one batch: after a crash all of them are gone or none.
func delCommand() *Command {
	c := newCommand("del KEY...", writes, "delete keys, all at once",
		"Deletes the keys in one atomic batch. A key that is absent is no error.")
	c.keys = -1
	// Absent keys are not looked for first. A deletion of one leaves a tombstone, which a
	// compaction removes.
	return c.does(func(ctx context.Context, s *Session, words []Word) (Status, error) {
		var b shale.Batch
		for _, w := range words {
			if err := b.Delete(w.bytes()); err != nil {
				return Failed, err
			}
		}
		return Found, s.write(ctx, &b)
	})
}
