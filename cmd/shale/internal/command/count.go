package command

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/shaledb/shale/cmd/shale/internal/output"
)

// countCommand walks over the keys, because a store does not know how many it has: several tables
// may have versions of one key. levels shows the number of entries, which is quick and too high.
func countCommand() *Command {
	var b bounds
	var p pattern
	c := newCommand("count [PREFIX]", Reads, "count keys",
		"Prints how many keys start with PREFIX and lie between --from and --to. Status 1 if there are none.")
	c.keys = 1
	b.options(c)
	p.options(c)
	return c.does(func(ctx context.Context, s *Session, words []Word) (Status, error) {
		r := b.of(words)
		// Values are not copied for it.
		r.KeysOnly = true
		n := 0
		var done atomic.Int64
		s.measure(measure{done: done.Load, format: entries})
		for _, err := range s.entries(ctx, r, &p) {
			if err != nil {
				return Failed, err
			}
			n++
			done.Store(int64(n))
		}
		if s.AsText() {
			fmt.Fprintln(s.Out, n)
			return foundIf(n > 0), nil
		}
		l := s.List(">count")
		return foundIf(n > 0), errors.Join(l.Row(output.NumberCell(n)), l.End())
	})
}
