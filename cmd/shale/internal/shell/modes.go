package shell

import (
	"context"
	"fmt"
	"slices"

	"github.com/shaledb/shale/cmd/shale/internal/command"
	"github.com/shaledb/shale/cmd/shale/internal/output"
)

// Commands are the commands that begin with a dot. They change how commands run, or run other
// commands.
func Commands() []command.Group {
	return []command.Group{{Title: "Prompt and scripts", Commands: []func() *command.Command{
		modeCommand, timerCommand, explainCommand, watchCommand, sourceCommand,
		func() *command.Command { return command.NewHelp(".help", "the same as help") },
		func() *command.Command { return command.NewQuit(".quit", "the same as quit") },
	}}}
}

func modeCommand() *command.Command {
	c := command.New(".mode [MODE]", command.NeedsNothing, "set the layout of what is printed, or print its name", `
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
	c.Values = output.DisplayNames
	return c.Does(func(_ context.Context, s *command.Session, words []command.Word) (command.Status, error) {
		if len(words) == 0 {
			fmt.Fprintln(s.Out, s.Display)
			return command.Found, nil
		}
		mode, err := command.DisplayOf(words[0].Text)
		if err != nil {
			return command.Failed, fmt.Errorf("%s %w", output.Quote(words[0].Text), err)
		}
		s.Display = mode
		return command.Found, nil
	})
}

func timerCommand() *command.Command {
	return toggle(".timer", "print how long each command took",
		"Prints the time after each command, on standard error. --timer does the same for one command.",
		func(s *command.Session) *bool { return &s.Timer })
}

func explainCommand() *command.Command {
	return toggle(".explain", "print in a line how each get went", `
Prints after each get, on standard error, how many places and levels were asked, what their filters said,
the blocks read, and the time. explain KEY shows it place by place.`,
		func(s *command.Session) *bool { return &s.Explain })
}

// toggle returns a command that turns a setting on or off. Without a word it prints the setting.
func toggle(name, short, long string, of func(s *command.Session) *bool) *command.Command {
	states := []string{"off", "on"}
	c := command.New(name+" [on|off]", command.NeedsNothing, short, long)
	c.Values = []string{"on", "off"}
	return c.Does(func(_ context.Context, s *command.Session, words []command.Word) (command.Status, error) {
		set := of(s)
		switch {
		case len(words) == 0 && *set:
			fmt.Fprintln(s.Out, states[1])
		case len(words) == 0:
			fmt.Fprintln(s.Out, states[0])
		case !slices.Contains(states, words[0].Text):
			return command.Failed, fmt.Errorf("%s is neither on nor off", output.Quote(words[0].Text))
		default:
			*set = words[0].Text == states[1]
		}
		return command.Found, nil
	})
}
