package command

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"

	"github.com/spf13/pflag"

	"github.com/shaledb/shale/cmd/shale/internal/output"
	"github.com/shaledb/shale/internal/companion"
)

// companionCommands returns the commands that another program does.
func companionCommands() (list []func() *Command) {
	for _, entry := range companion.Commands() {
		list = append(list, func() *Command { return companionCommand(&entry) })
	}
	return list
}

// companionCommand returns a command that starts the other program. The words and options were checked here by
// then, so a mistake is shown in the way of this program.
func companionCommand(entry *companion.Command) *Command {
	c := New(entry.Name+" "+entry.Words, NeedsNothing, entry.Short, entry.Long)
	for _, o := range entry.Options {
		if o.Kind == "" {
			c.flag(new(bool), o.Name, o.Help)
		} else {
			var passed string
			c.text(&passed, o.Name, o.Kind, o.Help)
			c.passes = append(c.passes, func() (string, string) { return o.Name, passed })
		}
	}
	return c.Does(func(ctx context.Context, s *Session, words []Word) (Status, error) {
		program, err := findCompanion()
		if err != nil {
			return Failed, err
		}
		return s.start(ctx, program, c.companionArgs(words))
	})
}

// companionArgs returns the arguments with which the other program does what c was asked for.
func (c *Command) companionArgs(words []Word) []string {
	args := []string{c.Title}
	c.own(func(f *pflag.Flag) {
		if f.NoOptDefVal != "" && f.Changed {
			args = append(args, "--"+f.Name)
		}
	})
	for _, option := range c.passes {
		if name, value := option(); c.has(name) {
			args = append(args, "--"+name+"="+value)
		}
	}
	args = append(args, "--")
	for _, w := range words {
		args = append(args, w.Text)
	}
	return args
}

// findCompanion returns the path of the other program: next to this one, or on PATH.
func findCompanion() (string, error) {
	name := companion.Program
	if runtime.GOOS == "windows" {
		name += ".exe"
	}
	if self, err := os.Executable(); err == nil {
		beside := filepath.Join(filepath.Dir(self), name)
		if info, err := os.Stat(beside); err == nil && info.Mode().IsRegular() {
			return beside, nil
		}
	}
	path, err := exec.LookPath(name)
	if err != nil {
		return "", fmt.Errorf("this needs the program %s, which is neither next to shale nor on PATH; "+
			"in a copy of shale's source, `cd %s && go install ./%s` installs it", companion.Program, companion.Module, companion.Program)
	}
	return path, nil
}

// start runs a program with the standard files of this one, and returns its status. A signal that ends a
// command is passed on as SIGTERM, because shells make programs in the background ignore Ctrl-C, and the program
// ends in its own way.
func (s *Session) start(ctx context.Context, program string, args []string) (Status, error) {
	// The program may open the same store, which only one can have open. The next command opens it again.
	if err := errors.Join(s.Close(), s.Out.Flush()); err != nil {
		return Failed, err
	}
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.Env = os.Environ()
	if s.Dir != "" {
		cmd.Env = append(cmd.Env, "SHALE_DIR="+s.Dir)
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = s.in, s.rawOut, s.Notes.W
	if s.Mode != oneShot {
		cmd.Stdin = nil // what follows in the script, or at the prompt, is not for the program
	}
	if cmd.Stdout == nil {
		cmd.Stdout = s.Out
	}
	err := cmd.Run()
	if cmd.ProcessState == nil {
		return Failed, fmt.Errorf("%s: %w", output.Quote(program), err)
	}
	switch code := cmd.ProcessState.ExitCode(); {
	case code == int(Found) || code == int(Absent):
		return Status(code), nil
	case code == int(Failed) && s.Mode == oneShot:
		return Failed, nil // the program has said why
	case code == int(Failed):
		return Failed, fmt.Errorf("%s failed", companion.Program)
	}
	return Failed, fmt.Errorf("%s: %v", output.Quote(program), cmd.ProcessState)
}
