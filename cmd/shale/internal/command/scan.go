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
	var p pattern
	var r shale.Range
	var expires bool
	c := newCommand("scan [PREFIX]", Reads, "print keys and values in order", `
Prints the entries whose keys start with PREFIX and lie between --from and --to. Each line is a key, a tab
and a value. If you put the word put and a space before each line, batch can read the lines. Status 1 if
there are no entries.`)
	c.keys = 1
	b.options(c)
	p.options(c)
	c.flag(&r.Reverse, "reverse", "from the last key to the first")
	c.count(&r.Limit, "limit", "stop after N entries")
	c.flag(&r.KeysOnly, "keys", "print no values")
	c.flag(&expires, "expires", "print when each value expires, or never")
	return c.does(func(ctx context.Context, s *Session, words []Word) (Status, error) {
		within := b.of(words)
		r.Lower, r.Upper = within.Lower, within.Upper
		return s.scan(ctx, r, &p, expires)
	})
}

// scan prints the entries of r that fit p, and if expires is set when their values expire.
func (s *Session) scan(ctx context.Context, r shale.Range, p *pattern, expires bool) (Status, error) {
	titles := []string{"key"}
	if !r.KeysOnly {
		titles = append(titles, "value")
	}
	if expires {
		titles = append(titles, "expires")
	}
	cells := make([]output.Cell, 0, 3)
	l := s.List(titles...)
	for e, err := range s.entries(ctx, r, p) {
		if err != nil {
			return Failed, err
		}
		// An entry is valid until the next one, which is long enough: a row is printed at once.
		cells = append(cells[:0], output.ByteCell(e.Key))
		if !r.KeysOnly {
			cells = append(cells, output.ByteCell(e.Value))
		}
		if expires {
			at, _ := expiryWords(e.ExpiresAt)
			cells = append(cells, output.Cell{Text: at})
		}
		if err := l.Row(cells...); err != nil {
			return Failed, err
		}
	}
	if l.Rows == 0 && s.AsText() {
		s.Say("none")
	}
	return foundIf(l.Rows > 0), l.End()
}
