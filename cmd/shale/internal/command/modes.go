package command

import (
	"context"
	"fmt"
	"slices"

	"github.com/shaledb/shale/cmd/shale/internal/output"
)

func modeCommand() *Command {
	c := newCommand(".mode [MODE]", needsNothing, "set the layout of what is printed, or print its name", `
- text, the default: tables in columns, keys and values as words with tabs between them
- box: a table drawn with lines, and cut to the width of the terminal
- lines: a line "title = value" for each field
- hex: as text, with keys and values in hexadecimal
- raw: as text, with the bytes of keys and values as they are, as --raw prints them
- json: one array of objects. jsonl: an object on each line. Sizes are in bytes, times in seconds, and
percentages are fractions of 1. A key or value that is not UTF-8 is in base64, and the name of its field ends
in 64.
- csv: as in RFC 4180, with a line of titles. A key or value that begins with a quote or has bytes that can't
be seen is a quoted word; any other is as it is.
- tsv: words with tabs between them, with a line of titles

--mode MODE, before or after a command, does the same for this command only.`)
	c.values = output.DisplayNames
	return c.does(func(_ context.Context, s *Session, words []Word) (Status, error) {
		if len(words) == 0 {
			fmt.Fprintln(s.Out, s.Display)
			return Found, nil
		}
		mode, err := displayOf(words[0].Text)
		if err != nil {
			return Failed, fmt.Errorf("%s %w", output.Quote(words[0].Text), err)
		}
		s.Display = mode
		return Found, nil
	})
}

func timerCommand() *Command {
	c := newCommand(".timer [on|off]", needsNothing, "print how long each command took",
		"Prints the time after each command, on standard error. --timer does the same for one command.")
	c.values = []string{"on", "off"}
	return c.does(func(_ context.Context, s *Session, words []Word) (Status, error) {
		switch {
		case len(words) == 0 && s.Timer:
			fmt.Fprintln(s.Out, "on")
		case len(words) == 0:
			fmt.Fprintln(s.Out, "off")
		case !slices.Contains(c.values, words[0].Text):
			return Failed, fmt.Errorf("%s is neither on nor off", output.Quote(words[0].Text))
		default:
			s.Timer = words[0].Text == "on"
		}
		return Found, nil
	})
}
