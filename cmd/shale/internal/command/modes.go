package command

import (
	"context"
	"fmt"

	"github.com/shaledb/shale/cmd/shale/internal/output"
)

// modeCommand sets the mode for the commands that follow. --mode does it for one command (setFor).
func modeCommand() *Command {
	c := newCommand(".mode [MODE]", needsNothing, "set the layout of what is printed, or print its name", `
- text, the default: tables in columns, keys and values as words with tabs between them
- hex: as text, with keys and values in hexadecimal
- raw: as text, with the bytes of keys and values as they are
- json: one array of objects. jsonl: an object on each line. Sizes are in bytes, times in seconds, and
percentages are fractions of 1. A key or value that is not UTF-8 is in base64, and the name of its field ends
in 64.
- csv: as in RFC 4180, with a line of titles. A key or value that begins with a quote or has bytes that can't
be seen is a quoted word; any other is as it is.

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
