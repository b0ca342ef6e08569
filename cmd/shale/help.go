package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"
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
func (s *session) writeHelp(w io.Writer) {
	fmt.Fprint(w, synopsis)
	s.writeCommands(w)
	fmt.Fprint(w, notation)
}

func (s *session) writeCommands(out io.Writer) {
	w := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	defer w.Flush()
	for _, g := range s.table() {
		fmt.Fprintf(w, "\n%s\n", g.title)
		for _, c := range g.commands {
			name := c.name
			if c.words != "" {
				name += " " + c.words
			}
			fmt.Fprintf(w, "  %s\t%s\n", name, c.short)
		}
	}
}

func help(_ context.Context, s *session, a arguments) (status, error) {
	switch {
	case len(a.words) == 0 && !s.asText():
		g := newGrid("group", "command", "words", "what it does")
		for _, group := range s.table() {
			for _, c := range group.commands {
				g.row(group.title, c.name, c.words, c.short)
			}
		}
		return found, s.show(g)
	case len(a.words) == 0 && s.mode == oneShot:
		s.writeHelp(s.out)
		return found, nil
	case len(a.words) == 0:
		s.writeCommands(s.out)
		fmt.Fprint(s.out, notation)
		return found, nil
	}
	c, rest := s.commandOf(a.words)
	if c == nil || len(rest) > 0 {
		return failed, errors.New(s.unknownCommand(a.words[len(a.words)-1]))
	}
	fmt.Fprintf(s.out, "%s: %s\n", c.usage(), c.short)
	if c.long != "" {
		fmt.Fprintf(s.out, "\n%s\n", c.long)
	}
	if len(c.options) == 0 {
		return found, nil
	}
	fmt.Fprintln(s.out)
	w := tabwriter.NewWriter(s.out, 0, 0, 3, ' ', 0)
	defer w.Flush()
	for _, o := range c.options {
		fmt.Fprintf(w, "  %s\t%s\n", o.usage(), o.help)
	}
	return found, nil
}
