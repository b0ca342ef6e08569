package command

import (
	"context"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/cmd/shale/internal/output"
)

// scanCommand prints a range of the store, each entry as soon as it is read. A scan that goes into
// head ends when head does.
func scanCommand() *Command {
	var b bounds
	var r shale.Range
	c := newCommand("scan [PREFIX]", Reads, "print keys and values in order", `
Prints the entries whose keys start with PREFIX and lie between --from and --to. Each line is a key, a tab
and a value. If you put the word put and a space before each line, batch can read the lines. Status 1 if
there are no entries.`)
	c.keys = 1
	b.options(c)
	c.flag(&r.Reverse, "reverse", "from the last key to the first")
	c.count(&r.Limit, "limit", "stop after N entries")
	c.flag(&r.KeysOnly, "keys", "print no values")
	return c.does(func(ctx context.Context, s *Session, words []Word) (Status, error) {
		within := b.of(words)
		r.Lower, r.Upper = within.Lower, within.Upper
		return s.scan(ctx, r)
	})
}

// scan prints the entries of r.
func (s *Session) scan(ctx context.Context, r shale.Range) (Status, error) {
	titles := []string{"key", "value"}
	if r.KeysOnly {
		titles = titles[:1]
	}
	l := s.List(titles...)
	for e, err := range s.reader().Scan(r) {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return Failed, err
		}
		// An entry is valid until the next one, which is long enough: a row is printed at once.
		cells := [2]output.Cell{output.ByteCell(e.Key), output.ByteCell(e.Value)}
		if err := l.Row(cells[:len(titles)]...); err != nil {
			return Failed, err
		}
	}
	if l.Rows == 0 && s.AsText() {
		s.Say("none")
	}
	return foundIf(l.Rows > 0), l.End()
}
