package command

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/pflag"

	"github.com/shaledb/shale/cmd/shale/internal/output"
)

// calls are the ways to call the program, and what each does.
var calls = [][2]string{
	{"shale DIR COMMAND [WORD...]", "run one command"},
	{"shale DIR < SCRIPT", "run the lines of a script, or of -e LINE"},
	{"shale DIR", "a prompt, on a terminal"},
}

// where says what DIR is, and where options may stand.
const where = `DIR is the folder of the store. The options may stand before the command; those about the store, and --mode,
also behind it.`

// notation is how help ends: what a word is, and what the exit status means.
const notation = `A word is bare, "quoted\n\x00" or 0x68657861. After -- words are taken as they are: put -- "$KEY" "$VALUE".
The exit status is 0 for found or done, 1 for absent, 2 for an error, and 130 for Ctrl-C. It is 1 for damage if
the command looks for damage, as check does, and otherwise 2. help COMMAND explains a command.`

// helpCommand lists all commands, or explains one.
func helpCommand() *Command {
	c := newCommand("help [COMMAND] [SUBCOMMAND]", needsNothing, "list the commands, or explain one",
		"At the prompt, help lists only the names of the commands, so that they fit on a screen, and help all says what each does.")
	c.Aliases = []string{".help"}
	return c.does(func(_ context.Context, s *Session, words []Word) (Status, error) {
		all := len(words) == 1 && words[0].Text == "all"
		switch {
		case len(words) == 0 && s.Mode == oneShot:
			s.writeHelp(s.Out)
			return Found, nil
		case len(words) == 0 && s.Mode == AtPrompt:
			s.writeNames(s.Out)
			return Found, nil
		case len(words) == 0 || all:
			s.writeCommands(s.Out)
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
	const left = 32 // columns for a call
	fmt.Fprint(w, "shale looks into a store, and changes it.\n\n")
	for _, c := range calls {
		fmt.Fprintf(w, "  %-*s%s", left-2, c[0], output.WrapBehind(left, c[1], s.TextWidth()))
	}
	fmt.Fprintf(w, "\n%s\n", output.Wrap(where, s.TextWidth()))
	set := pflag.NewFlagSet("shale", pflag.ContinueOnError)
	new(flags).options(set)
	fmt.Fprint(w, set.FlagUsagesWrapped(s.TextWidth()))
	s.writeCommands(w)
}

// writeCommands lists all commands, by group, with a line for each, or two where a terminal is narrow.
func (s *Session) writeCommands(w io.Writer) {
	const left = 22 // columns for the command and its words
	width := s.TextWidth()
	for _, group := range Groups() {
		fmt.Fprintf(w, "\n%s\n", group.Title)
		for _, makes := range group.Commands {
			c := makes()
			call, text := strings.TrimSpace(c.Title+" "+c.Words), output.WrapBehind(left, c.Short, width)
			if len(call) > left-4 {
				call += "\n" + strings.Repeat(" ", left)
			}
			fmt.Fprintf(w, "  %-*s%s", left-2, call, text)
		}
	}
	fmt.Fprint(w, "\n"+output.Wrap(notation, width))
}

// writeNames lists the names of all commands, so that they fit on a small terminal.
func (s *Session) writeNames(w io.Writer) {
	const left = 20
	for _, group := range Groups() {
		var names []string
		for _, makes := range group.Commands {
			names = append(names, strings.ReplaceAll(makes().Title, " ", "\x00")) // not to be wrapped within a name
		}
		text := output.WrapBehind(left, strings.Join(names, ", "), s.TextWidth())
		fmt.Fprintf(w, "%-*s%s", left, group.Title, strings.ReplaceAll(text, "\x00", " "))
	}
	fmt.Fprint(w, "\n"+output.Wrap("help COMMAND explains a command, and help all says what each of them does.", s.TextWidth()))
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
