// Package program is the command shale-remote.
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

	"github.com/spf13/cobra"

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
	options map[string]string // those that were given; of one without an argument it is "true"
}

// has reports whether an option was given.
func (c *call) has(option string) bool {
	_, there := c.options[option]
	return there
}

// note prints a line on standard error.
func (c *call) note(text string, args ...any) {
	fmt.Fprintf(c.env.Err, programName+": "+text+"\n", args...)
}

// runs has the functions of the commands. Each returns an exit status, or an error, whose status is failed.
var runs = map[string]func(c *call) (int, error){
	"ship": ship, "restore": restore, "promote": promote, "verify": verify, "salvage": salvage, "pins": pins, "pin": pin, "unpin": unpin, "collect": collect,
}

// Run runs the program and returns its exit status.
func Run(ctx context.Context, env Environment) int {
	out := bufio.NewWriter(env.Out)
	status := found
	root := &cobra.Command{
		Use: programName, Short: "keeps stores in buckets, and makes stores from buckets", SilenceErrors: true, SilenceUsage: true,
		Args: cobra.NoArgs,
		RunE: func(root *cobra.Command, _ []string) error { return root.Help() },
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		root.Version = info.Main.Version
	}
	for _, entry := range commands {
		root.AddCommand(command(&entry, func(words []string, options map[string]string) (err error) {
			status, err = runs[entry.Name](&call{ctx, env, out, words, options})
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

// command returns the command of package cobra for an entry of the table.
func command(entry *entry, run func(words []string, options map[string]string) error) *cobra.Command {
	least, most := 0, 0
	for w := range strings.FieldsSeq(entry.Words) {
		most++
		if w[0] != '[' {
			least++
		}
	}
	usage := entry.Name + " " + entry.Words
	c := &cobra.Command{
		Use: usage, Short: entry.Short, Long: strings.TrimSpace(entry.Short + "\n" + entry.Long), DisableFlagsInUseLine: len(entry.Options) == 0,
		Args: func(_ *cobra.Command, words []string) error {
			if len(words) < least || len(words) > most {
				return fmt.Errorf("usage: %s; %s help %s says more", usage, programName, entry.Name)
			}
			return nil
		},
	}
	c.Flags().SortFlags = false
	for _, o := range entry.Options {
		if o.Kind == "" {
			c.Flags().Bool(o.Name, false, o.Help)
		} else {
			c.Flags().Var(&argument{kind: o.Kind}, o.Name, o.Help)
		}
	}
	c.RunE = func(c *cobra.Command, words []string) error {
		options := map[string]string{}
		for _, o := range entry.Options {
			if f := c.Flags().Lookup(o.Name); f.Changed && f.Value.String() != "false" {
				options[o.Name] = f.Value.String()
			}
		}
		return run(words, options)
	}
	return c
}

// An argument is the text that follows an option. It implements pflag.Value.
type argument struct{ kind, text string }

func (a *argument) String() string { return a.text }
func (a *argument) Type() string   { return a.kind }

// Set takes the text as it is.
func (a *argument) Set(text string) error {
	a.text = text
	return nil
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

// message returns the text of an error, with what to do next where that is not part of it.
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
		return text + "\n`shale-remote verify --deep` lists all damage of a bucket, and `shale check` that of a folder."
	}
	return text
}
