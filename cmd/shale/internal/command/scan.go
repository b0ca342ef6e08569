package command

import (
	"context"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/cmd/shale/internal/output"
)

func scanCommand() *Command {
	var b bounds
	var f form
	var r shale.Range
	c := New("scan [PREFIX]", Reads, "print keys and values in order", `
Prints the entries whose keys start with PREFIX and lie between --from and --to. Each line is a key, a tab
and a value. If you put the word put and a space before each line, batch can read the lines. Status 1 if
there are no entries.`)
	c.keys = 1
	b.options(c)
	c.flag(&r.Reverse, "reverse", "from the last key to the first")
	c.count(&r.Limit, "limit", "stop after N entries")
	c.flag(&r.KeysOnly, "keys", "print no values")
	f.options(c)
	return c.Does(func(ctx context.Context, s *Session, words []Word) (Status, error) {
		return s.scanRange(ctx, r, b.of(words), &f)
	})
}

func firstCommand() *Command { return endCommand("first", false) }
func lastCommand() *Command  { return endCommand("last", true) }

// endCommand returns a command that prints the entry at one end of a range.
func endCommand(which string, reverse bool) *Command {
	var b bounds
	var f form
	r := shale.Range{Reverse: reverse, Limit: 1}
	c := New(which+" [PREFIX]", Reads, "print the "+which+" key, and its value",
		"Prints the "+which+" entry whose key starts with PREFIX and lies between --from and --to. Status 1 if there is none.")
	c.keys = 1
	b.options(c)
	c.flag(&r.KeysOnly, "keys", "print no value")
	f.options(c)
	return c.Does(func(ctx context.Context, s *Session, words []Word) (Status, error) {
		return s.scanRange(ctx, r, b.of(words), &f)
	})
}

// scanRange prints the entries of a range of keys. The options of r say how.
func (s *Session) scanRange(ctx context.Context, r, within shale.Range, f *form) (Status, error) {
	r.Lower, r.Upper = within.Lower, within.Upper
	format, err := f.format(s)
	if err != nil {
		return Failed, err
	}
	titles := []string{"key", "value"}
	if r.KeysOnly {
		titles = titles[:1]
	}
	l := s.List(format, titles...)
	for e, err := range s.DB.Scan(r) {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return Failed, err
		}
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
