package command

import (
	"errors"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// A Group is the commands under one heading of the table. Each function makes a command.
//
// The order of groups and commands is that of help and of docs/COMMAND.md.
type Group struct {
	Title    string
	Commands []func() *Command
}

// Groups returns all commands. It is not a variable, because the command help is one of them and
// lists all of them: the variable would depend on itself.
//
// Each use makes its commands again. An option is a variable of the function that makes the
// command, so two lines of a script never see each other's options.
func Groups() []Group {
	return []Group{
		{"Data", []func() *Command{getCommand, putCommand, delCommand, hasCommand, scanCommand, countCommand, batchCommand}},
		{"Transactions", []func() *Command{beginCommand, commitCommand, discardCommand}},
		{"Files", []func() *Command{importCommand, exportCommand}},
		{"Insight", []func() *Command{
			explainCommand, levelsCommand, tablesCommand, filtersCommand, exportFiltersCommand, metricsCommand,
			walCommand, manifestCommand, changesCommand, spaceCommand, serveCommand,
		}},
		{"Care", []func() *Command{flushCommand, compactCommand, rebuildCommand, checkCommand, repairCommand, checkpointCommand, backupCommand, restoreCommand}},
		{"This program", []func() *Command{helpCommand, completionCommand, quitCommand}},
		{"Prompt and scripts", []func() *Command{modeCommand}},
	}
}

// A table has the commands of a session by their names.
type table struct {
	names []string
	makes map[string]func() *Command
}

// commands returns the table of s. It is filled only once, because a script may have many
// lines, and each line makes only its own command.
func (s *Session) commands() *table {
	if s.table == nil {
		s.table = &table{makes: map[string]func() *Command{}}
		for _, g := range Groups() {
			for _, makes := range g.Commands {
				c := makes()
				s.table.names = append(s.table.names, c.Title)
				for _, name := range append(c.Aliases, c.Title) {
					s.table.makes[name] = makes
				}
			}
		}
	}
	return s.table
}

// command returns a new command of that name, or nil.
func (s *Session) command(name string) *Command {
	if makes := s.commands().makes[name]; makes != nil {
		return makes()
	}
	return nil
}

// commandOf returns the command with which words begin, or nil, and the words after its name.
// A name has one word or two.
//
// "filters export x" is the command "filters export" with one word, and "filters 3" is "filters". A
// quoted word is no part of a name.
func (s *Session) commandOf(words []Word) (*Command, []Word) {
	if len(words) > 1 && !words[1].Literal {
		if c := s.command(words[0].Text + " " + words[1].Text); c != nil {
			return c, words[2:]
		}
	}
	return s.command(words[0].Text), words[1:]
}

// tree returns all commands below a root command of package cobra, for completion. It
// completes the arguments of options of the named command, or of all commands if named is
// empty.
//
// The session does not run it. It exists so that cobra can answer completions, which it only does
// for a tree of its own commands.
func (s *Session) tree(named string) *cobra.Command {
	root := &cobra.Command{Use: "shale", TraverseChildren: true, SilenceErrors: true, SilenceUsage: true}
	root.CompletionOptions.DisableDefaultCmd = true
	parents := map[string]*cobra.Command{}
	for _, name := range s.commands().names {
		c := s.command(name)
		c.RunE = func(*cobra.Command, []string) error { return errors.ErrUnsupported }
		c.ValidArgsFunction = func(_ *cobra.Command, args []string, partial string) ([]string, cobra.ShellCompDirective) {
			return s.wordChoices(c, args, partial)
		}
		if named == "" || named == name { // cobra never forgets these functions
			c.Flags().VisitAll(func(f *pflag.Flag) { s.completeOption(c, f) })
		}
		first, _, two := strings.Cut(name, " ")
		switch {
		case name == "help":
			root.SetHelpCommand(c.Command)
		case two:
			parents[first].AddCommand(c.Command)
		default:
			root.AddCommand(c.Command)
		}
		parents[name] = c.Command
	}
	return root
}
