// Package program is the command shale-remote. commands.go has the table of its commands, with their help; each command is
// a function in the file of its name. A command writes its result to standard output and everything else to standard error,
// so that output can be piped. It makes nothing in a place that a mistyped name leads to: see checkDir.
package program

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"strings"
	"syscall"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/remote"
)

// The exit statuses are those of shale.
const (
	found  = 0
	absent = 1 // or damaged
	failed = 2
)

// An Environment is what a process gets from outside. Tests make their own.
type Environment struct {
	Args     []string // without the program's name
	Out, Err io.Writer
	Getenv   func(string) string
	Terminal bool // Err is a terminal
}

// A call is one command with its words and options.
type call struct {
	ctx     context.Context
	env     Environment
	out     *bufio.Writer
	words   []string
	options *pflag.FlagSet
}

// has reports whether an option was given. Of one without an argument, =false takes it back.
func (c *call) has(option string) bool {
	return c.options.Changed(option) && c.option(option) != "false"
}

// option returns the argument of an option, or "".
func (c *call) option(name string) string { return c.options.Lookup(name).Value.String() }

// note prints a line on standard error.
func (c *call) note(text string, args ...any) {
	fmt.Fprintf(c.env.Err, programName+": "+text+"\n", args...)
}

// Run runs the program and returns its exit status: 0 if all was done or found, 1 if something is absent, damaged or can't be
// restored, 2 if the command has failed. The table of commands becomes commands of package cobra, which parses options,
// prints help and completes words.
func Run(ctx context.Context, env Environment) int {
	out := bufio.NewWriter(env.Out)
	status := found
	root := &cobra.Command{
		Use: programName, Short: "keeps stores in buckets, and makes stores from buckets", SilenceErrors: true, SilenceUsage: true,
		Args: cobra.NoArgs,
		RunE: func(root *cobra.Command, _ []string) error { return root.Help() },
	}
	ofCommand := root.HelpFunc()
	root.SetHelpFunc(func(c *cobra.Command, words []string) {
		if c == root {
			writeHelp(out)
			return
		}
		ofCommand(c, words)
	})
	if info, ok := debug.ReadBuildInfo(); ok {
		root.Version = info.Main.Version
	}
	for _, entry := range commands {
		root.AddCommand(entry.command(func(words []string, options *pflag.FlagSet) (err error) {
			status, err = entry.Run(&call{ctx, env, out, words, options})
			return err
		}))
	}
	root.SetArgs(append([]string{}, env.Args...)) // not nil: cobra would take those of the process
	root.SetOut(out)
	root.SetErr(env.Err)
	err := root.ExecuteContext(ctx)
	if flushed := out.Flush(); err == nil {
		err = flushed
	}
	switch {
	case errors.Is(err, syscall.EPIPE):
		return found // a program such as head does not read all of it
	case err == nil:
		return status
	}
	fmt.Fprintf(env.Err, "%s: %s\n", programName, message(err))
	return failed
}

// writeHelp lists the commands as shale does. What follows them is about all that name a bucket.
func writeHelp(out io.Writer) {
	fmt.Fprintf(out, "%s keeps stores in buckets, and makes stores from buckets.\n\n  %s COMMAND WORD... [OPTION...]\n\nCommands\n", programName, programName)
	w := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	for _, entry := range commands {
		fmt.Fprintf(w, "  %s\t%s\n", strings.TrimSpace(entry.Name+" "+entry.Words), entry.Short)
	}
	fmt.Fprintf(w, "  completion SHELL\tprint a script that makes bash, zsh, fish or powershell complete words\n")
	_ = w.Flush() // into a buffer
	fmt.Fprintf(out, "\n%s\nThe exit status is 0 for found or done, 1 for absent or damaged, and 2 for an error.\nhelp COMMAND explains a command; --version prints the version.\n", strings.TrimSpace(buckets))
}

// command returns the command of package cobra. An option whose help names an argument takes one; any other is switched on by
// its name.
func (entry *entry) command(run func(words []string, options *pflag.FlagSet) error) *cobra.Command {
	least, most := 0, 0
	// Words in brackets may be left out, and all others must be there.
	for w := range strings.FieldsSeq(entry.Words) {
		most++
		if w[0] != '[' {
			least++
		}
	}
	usage := entry.Name + " " + entry.Words
	long := entry.Short + "\n" + entry.Long
	if strings.Contains(usage, "BUCKET") {
		long += "\n" + buckets
	}
	c := &cobra.Command{
		Use: usage, Short: entry.Short, Long: strings.TrimSpace(long), DisableFlagsInUseLine: len(entry.Options) == 0,
		Args: func(_ *cobra.Command, words []string) error {
			if len(words) < least || len(words) > most {
				return fmt.Errorf("usage: %s; %s help %s says more", usage, programName, entry.Name)
			}
			return nil
		},
	}
	// Help lists the options in the order of the table.
	c.Flags().SortFlags = false
	for _, o := range entry.Options {
		if strings.Contains(o.Help, "`") {
			c.Flags().String(o.Name, "", o.Help)
		} else {
			c.Flags().Bool(o.Name, false, o.Help)
		}
	}
	c.RunE = func(c *cobra.Command, words []string) error { return run(words, c.Flags()) }
	return c
}

// folder returns the store that the words name before the last rest of them, or SHALE_DIR.
func (c *call) folder(rest int) (string, error) {
	if len(c.words) > rest {
		return c.words[0], nil
	}
	if dir := c.env.Getenv("SHALE_DIR"); dir != "" {
		return dir, nil
	}
	return "", errors.New("no store is named: write its folder before the bucket, or set SHALE_DIR")
}

// message returns the text of an error, with what to do next where that is not part of it. The names of packages are left
// out: people who use a program do not know them.
func message(err error) string {
	text := strings.TrimPrefix(strings.TrimPrefix(err.Error(), "remote: "), "shale: ")
	text = strings.ReplaceAll(strings.ReplaceAll(text, ": remote: ", ": "), ": shale: ", ": ")
	var damage *shale.CorruptionError
	switch {
	case errors.Is(err, context.Canceled):
		return "interrupted"
	case errors.Is(err, syscall.ENOSPC):
		return text + "\nThe disk is full: free space, or name a folder on another disk, and run this again."
	case errors.Is(err, shale.ErrFormatTooNew):
		return text + "\nA newer shale wrote this: use that one. Nothing was changed."
	case errors.Is(err, remote.ErrFenced):
		return text + "\nAnother program owns the store in the bucket now. `shale-remote salvage` lists what this folder had not shipped; " +
			"`shale-remote restore` makes a new folder from the bucket."
	case errors.As(err, &damage):
		return text + "\n`shale-remote verify --deep` lists all damage of a bucket, and `shale DIR check` that of a folder."
	}
	return text
}
