// Package program is the command shaled: its words and options, the life of a member, its pages, and the commands
// that ask a running member to change the group.
//
// A member's life, in the order of the files:
//
//	config.go   options, and which of them make no sense together
//	tls.go      certificates, and reading them and the passwords again
//	serve.go    open the member, serve clients and pages, end in an orderly way
//	alone.go    the same for a server that is in no group
//	backup.go   the state in a bucket, next to the member and never in its way
//	status.go   what INFO, /health and /metrics say
//	pages.go    the pages, and the requests that change the group
//
// Commands that ask a running member (admin.go) talk to its pages over HTTP, so they need nothing
// but an address and a password. restore.go and recover.go work on folders whose members do not
// run.
//
// Rules that hold everywhere: an error names the option or the folder, and the next step. Nothing
// is printed that is secret. Times and sizes that an operator may have to change are options, all
// others constants.
package program

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/shaledb/shale/cluster"
)

// The exit statuses.
const (
	done   = 0
	failed = 2
)

// An Environment is what a process gets from outside. Tests make their own.
type Environment struct {
	Args     []string // without the program's name
	Out, Err io.Writer
	Getenv   func(string) string

	// Ready, if not nil, is called when a member serves.
	Ready func(*member)
}

// long is the text of shaled help. It says in a few sentences what the program promises.
const long = `
shaled keeps a key-value store for clients of Redis. "shaled serve DIR" keeps it in a folder of this machine.

With --id it is a member of a group: each has a copy of everything, and a write is on disk at a majority of them before it
is answered, so the group goes on without any minority, and loses nothing. Clients can talk to any member.`

// Run runs the program and returns its exit status.
func Run(ctx context.Context, env Environment) int {
	root := &cobra.Command{
		Use: "shaled", Short: "a store for clients of Redis, alone or in a replicated group", Long: strings.TrimSpace(long),
		Version: version(), SilenceErrors: true, SilenceUsage: true, Args: cobra.NoArgs,
		RunE: func(root *cobra.Command, _ []string) error { return root.Help() },
	}
	root.CompletionOptions.HiddenDefaultCmd = true
	root.AddCommand(serveCommand(env))
	root.AddCommand(groupCommands(env)...)
	root.AddCommand(restoreCommand(env), recoverCommand(env), seedCommand(env))
	for _, c := range root.Commands() {
		c.Flags().SortFlags = false
	}
	root.SetArgs(append([]string{}, env.Args...)) // not nil: cobra would take those of the process
	root.SetOut(env.Out)
	root.SetErr(env.Err)
	err := root.ExecuteContext(ctx)
	if err == nil || errors.Is(err, syscall.EPIPE) {
		return done
	}
	fmt.Fprintf(env.Err, "shaled: %s\n", message(err))
	return failed
}

// message returns the text of an error, with what to do next where that is not part of it.
func message(err error) string {
	text := strings.TrimPrefix(err.Error(), "cluster: ")
	text = strings.ReplaceAll(text, ": cluster: ", ": ")
	switch {
	case err == context.Canceled:
		return "interrupted"
	case errors.Is(err, syscall.EADDRINUSE):
		return text + "\nAnother program listens there: end it, or choose another port."
	case errors.Is(err, cluster.ErrLost), errors.Is(err, cluster.ErrDiffers):
		return text + "\nIf only a disk is not mounted, mount it. Otherwise remove the member at another one (shaled leave ID), move the folder away, " +
			"and start with --join and an empty folder."
	case errors.Is(err, syscall.ENOSPC):
		return text + "\nThe disk is full: free space, and start the member again."
	}
	return text
}

// newCommand returns a command with from least to most words, which run gets.
func newCommand(usage, short, long string, least, most int, run func(ctx context.Context, words []string) error) *cobra.Command {
	return &cobra.Command{
		Use: usage, Short: short, Long: strings.TrimSpace(long), DisableFlagsInUseLine: true,
		Args: func(_ *cobra.Command, words []string) error {
			if len(words) < least || len(words) > most {
				return fmt.Errorf("usage: shaled %s; shaled help %s says more", usage, strings.Fields(usage)[0])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, words []string) error { return run(cmd.Context(), words) },
	}
}
