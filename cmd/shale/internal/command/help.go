package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/shaledb/shale/cmd/shale/internal/output"
)

const synopsis = `shale looks into a store, and changes it.

  shale -C DIR COMMAND [WORD...]   run one command
  shale -C DIR < SCRIPT            run the lines of a script, or of -e LINE
  shale -C DIR                     a prompt, on a terminal

  -C DIR       the store; else the environment variable SHALE_DIR names it
  -e LINE      run this line; may be given several times
  -readonly    never write
  -new         make a store in a folder that has other files, too
  -hex, -raw   print keys and values in hexadecimal, or as they are
  -mode MODE   lay out what is printed: text, box, lines, hex, json, jsonl, csv or tsv
  -timer       tell how long each command took
`

const notation = `
Words are bare, "quoted\n\x00" or 0x68657861. Exit status: 0 found or done, 1 absent or damaged, 2 error.
help COMMAND tells more about one. --mode MODE and --timer may stand behind each.
`

// writeHelp prints how the program is called, and its commands.
func (s *Session) writeHelp(w io.Writer) {
	fmt.Fprint(w, synopsis)
	s.writeCommands(w)
	fmt.Fprint(w, notation)
}

func (s *Session) writeCommands(out io.Writer) {
	w := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	defer w.Flush()
	for _, g := range s.Table() {
		fmt.Fprintf(w, "\n%s\n", g.Title)
		for _, c := range g.Commands {
			name := c.Name
			if c.Words != "" {
				name += " " + c.Words
			}
			fmt.Fprintf(w, "  %s\t%s\n", name, c.Short)
		}
	}
}

func Help(_ context.Context, s *Session, a Arguments) (Status, error) {
	switch {
	case len(a.Words) == 0 && !s.AsText():
		g := output.NewGrid("group", "command", "words", "what it does")
		for _, group := range s.Table() {
			for _, c := range group.Commands {
				g.Row(group.Title, c.Name, c.Words, c.Short)
			}
		}
		return Found, s.Show(g)
	case len(a.Words) == 0 && s.Mode == oneShot:
		s.writeHelp(s.Out)
		return Found, nil
	case len(a.Words) == 0:
		s.writeCommands(s.Out)
		fmt.Fprint(s.Out, notation)
		return Found, nil
	}
	c, rest := s.CommandOf(a.Words)
	if c == nil || len(rest) > 0 {
		return Failed, errors.New(s.unknownCommand(a.Words[len(a.Words)-1]))
	}
	fmt.Fprintf(s.Out, "%s: %s\n", c.usage(), c.Short)
	if c.Long != "" {
		fmt.Fprintf(s.Out, "\n%s\n", c.Long)
	}
	if len(c.Options) == 0 {
		return Found, nil
	}
	fmt.Fprintln(s.Out)
	w := tabwriter.NewWriter(s.Out, 0, 0, 3, ' ', 0)
	defer w.Flush()
	for _, o := range c.Options {
		fmt.Fprintf(w, "  %s\t%s\n", o.usage(), o.help)
	}
	return Found, nil
}
