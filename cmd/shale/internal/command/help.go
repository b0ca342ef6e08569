package command

import (
	"context"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/pflag"

	"github.com/shaledb/shale/cmd/shale/internal/output"
)

// synopsis is how help begins: the three ways to call the program.
const synopsis = `shale looks into a store, and changes it.

  shale DIR COMMAND [WORD...]   run one command
  shale DIR < SCRIPT            run the lines of a script, or of -e LINE
  shale DIR                     a prompt, on a terminal

DIR is the folder of the store. The options may stand before the command; those about the store, and --mode,
also behind it.

`

// notation is how help ends: what a word is, and what the exit status means.
const notation = `
A word is bare, "quoted\n\x00" or 0x68657861. After -- words are taken as they are: put -- "$KEY" "$VALUE".
The exit status is 0 for found or done, 1 for absent, 2 for an error, and 130 for Ctrl-C. It is 1 for damage if
the command looks for damage, as check does, and otherwise 2.
help COMMAND explains a command.
`

// helpCommand lists all commands, or explains one.
func helpCommand() *Command {
	c := newCommand("help [COMMAND] [SUBCOMMAND]", needsNothing, "list the commands, or explain one", "")
	c.Aliases = []string{".help"}
	return c.does(func(_ context.Context, s *Session, words []Word) (Status, error) {
		switch {
		case len(words) == 0 && s.Mode == oneShot:
			s.writeHelp(s.Out)
			return Found, nil
		case len(words) == 0:
			s.writeCommands(s.Out)
			fmt.Fprint(s.Out, notation)
			return Found, nil
		}
		of, rest := s.commandOf(words)
		if of == nil || len(rest) > 0 {
			return Failed, s.unknownCommand(words[len(words)-1])
		}
		return Found, s.explainCommand(of)
	})
}

// writeHelp prints how the program is called, and the list of its commands.
func (s *Session) writeHelp(w io.Writer) {
	fmt.Fprint(w, synopsis)
	set := pflag.NewFlagSet("shale", pflag.ContinueOnError)
	new(flags).options(set)
	fmt.Fprint(w, set.FlagUsagesWrapped(s.TextWidth()))
	s.writeCommands(w)
	fmt.Fprint(w, notation)
}

// writeCommands lists all commands, by group, with a line for each.
func (s *Session) writeCommands(out io.Writer) {
	w := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	defer w.Flush()
	for _, group := range Groups() {
		fmt.Fprintf(w, "\n%s\n", group.Title)
		for _, makes := range group.Commands {
			c := makes()
			fmt.Fprintf(w, "  %s\t%s\n", strings.TrimSpace(c.Title+" "+c.Words), c.Short)
		}
	}
}

// explainCommand prints the help text of a command.
//
// Options that every command has are left out, so that the few of this one are seen.
func (s *Session) explainCommand(c *Command) error {
	width := s.TextWidth()
	text := output.Wrap(c.usage()+": "+c.Short, width)
	if long := strings.TrimSpace(c.Long); long != "" {
		text += "\n" + output.Wrap(long, width)
	}
	for _, name := range ofAll {
		c.Flags().Lookup(name).Hidden = true // help itself lists them
	}
	if options := c.Flags().FlagUsagesWrapped(width); options != "" {
		text += "\n" + options
	}
	_, err := s.Out.WriteString(text)
	return err
}
