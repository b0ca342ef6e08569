package command

import (
	"context"
	"errors"

	"github.com/shaledb/shale"
)

// delrangeCommand deletes a range of keys. It names the range as scan and count do, so that these can show it before. A line
// that names none is a mistake more often than the wish to delete everything, which --all says.
func delrangeCommand() *Command {
	var d rangeToDelete
	c := d.command()
	return c.does(func(ctx context.Context, s *Session, words []Word) (Status, error) {
		var b shale.Batch
		if err := d.addTo(&b, words); err != nil {
			return Failed, err
		}
		if b.Len() == 0 {
			s.Say("no key lies between these bounds")
		}
		return Found, s.write(ctx, &b)
	})
}

// A rangeToDelete is what a line of delrange says.
type rangeToDelete struct {
	bounds
	all bool
}

// command returns the command, which sets d, without its function.
func (d *rangeToDelete) command() *Command {
	c := newCommand("delrange [PREFIX]", writes, "delete a range of keys", `
Deletes all keys that start with PREFIX and lie between --from and --to, in one write. count with the same words
says how many these are. It takes no longer for many keys than for one; compactions give their room back. A part
of the keys or --all must be given.`)
	c.keys = 1
	d.options(c)
	c.flag(&d.all, "all", "all keys of the store")
	return c
}

// addTo adds the range delete to b.
func (d *rangeToDelete) addTo(b *shale.Batch, words []Word) error {
	some := len(words) > 0 || d.from != nil || d.to != nil
	switch {
	case d.all && some:
		return errors.New("delrange: --all can't be with a prefix or bounds")
	case !d.all && !some:
		return errors.New("delrange takes a prefix, --from or --to; --all deletes all keys")
	}
	r := d.of(words)
	return b.DeleteRange(r.Lower, r.Upper)
}
