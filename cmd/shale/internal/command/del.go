package command

import (
	"context"
	"errors"

	"github.com/shaledb/shale"
)

// delCommand deletes keys, or a range, in one batch: after a crash all of them are gone or none.
//
// It names a range as scan and count do, so that these can show it before. But a word is a key and not a
// prefix: a mistake would delete too much. For the same reason, everything needs --all, and no bound may be empty, as
// a variable of a script is that was never set.
func delCommand() *Command {
	var prefix []byte
	var within bounds
	var all bool
	c := newCommand("del [KEY...]", writes, "delete keys, or a range of keys, all at once", `
Deletes the keys in one atomic batch. A key that is absent is no error. With options it deletes all keys that start with
--prefix and lie between --from and --to, in one write, which takes no longer for many keys than for one; compactions
give their room back. count with the same prefix and bounds says how many these are.`)
	c.keys = -1
	c.key(&prefix, "prefix", "all keys that start with this")
	within.options(c)
	c.flag(&all, "all", "all keys of the store")
	c.change = func(_ *Session, b *shale.Batch, words []Word) error {
		some := c.has("prefix") || c.has("from") || c.has("to")
		switch {
		case all && (some || len(words) > 0) || some && len(words) > 0:
			return errors.New("del takes keys, or a range, or --all, and one of them alone")
		case c.has("prefix") && len(prefix) == 0 || c.has("from") && len(within.from) == 0 || c.has("to") && len(within.to) == 0:
			return errors.New("del: an option has an empty key; leave it out, and write --all to delete all keys")
		case all || some:
			r := within.of([]Word{{Text: string(prefix)}})
			return b.DeleteRange(r.Lower, r.Upper)
		case len(words) == 0:
			return errors.New("del takes keys, or a range by --prefix, --from and --to; --all deletes all keys")
		}
		// Absent keys are not looked for first. A deletion of one leaves a tombstone, which a
		// compaction removes.
		for _, w := range words {
			if err := b.Delete(w.bytes()); err != nil {
				return err
			}
		}
		return nil
	}
	return c.does(func(ctx context.Context, s *Session, words []Word) (Status, error) {
		var b shale.Batch
		if err := c.change(s, &b, words); err != nil {
			return Failed, err
		}
		if b.Len() == 0 {
			s.Say("no key lies between these bounds")
		}
		return Found, s.write(ctx, &b)
	})
}
