package command

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/shaledb/shale/cmd/shale/internal/output"
	"github.com/shaledb/shale/internal/signals"
	"github.com/shaledb/shale/vfs"
	"github.com/shaledb/shale/vfs/crypt"
)

// An Environment is what a process gets from outside: arguments, variables and standard files.
// Tests make their own.
type Environment struct {
	Args     []string // without the program's name
	In       io.Reader
	Out, Err io.Writer
	Terminal bool // input and output are a terminal
	ToScreen bool // the output is a terminal
	Getenv   func(string) string
	Columns  func() int // width of the terminal; 0 or nil: unknown

	// It is given from outside, since package shell imports this one.
	Prompt func(s *Session, env Environment) Status // reads commands from the terminal
}

// flags are the options of the program, which come before the command.
//
// --mode here is the first mode of the session, and --mode after a command is for that command.
type flags struct {
	// The values of the options, and at last the words of the command.
	dir      string
	fs       vfs.FS
	script   []string
	readOnly bool
	newStore bool
	display  output.Display
	version  bool
	command  []string
}

// options adds the options of the program to a set of package pflag. They end at the first word
// that is no option, which is the command: what follows belongs to it.
func (f *flags) options(set *pflag.FlagSet) {
	with := func(name, short, kind, help string, fn func(w Word) error) {
		set.VarP(&argument{name: name, kind: kind, set: fn}, name, short, help)
	}
	set.SortFlags = false
	set.SetInterspersed(false)
	with("store", "C", "DIR", "the store; else the environment variable SHALE_DIR names it", func(w Word) error { f.dir = w.Text; return nil })
	with("key-file", "", "FILE", "the store is encrypted: a number and 64 hexadecimal digits for each key, the newest last", func(w Word) (err error) {
		f.fs, err = encrypted(w.Text)
		return err
	})
	with("execute", "e", "LINE", "run this line; may be given several times", func(w Word) error { f.script = append(f.script, w.Text); return nil })
	set.BoolVar(&f.readOnly, "readonly", false, "open the store read-only")
	set.BoolVar(&f.newStore, "new", false, "also make a store in a folder that has other files")
	with("mode", "", "MODE", "lay out what is printed: "+strings.Join(output.DisplayNames, ", "), func(w Word) (err error) {
		f.display, err = displayOf(w.Text)
		return err
	})
	set.BoolVar(&f.version, "version", false, "print the version of this program, and of the files that it writes")
}

// encrypted returns the file system of an encrypted store. Its error continues a sentence that begins
// with the name of the file.
func encrypted(keyFile string) (vfs.FS, error) {
	f, err := os.Open(keyFile)
	if err != nil {
		return nil, fmt.Errorf("can't be read: %w", errors.Unwrap(err))
	}
	defer f.Close() // opened for reading
	keys, err := crypt.ReadKeys(f)
	if err != nil {
		return nil, fmt.Errorf("can't be used: %w", err)
	}
	return crypt.New(vfs.Default, keys)
}

// Run runs the program and returns its exit status.
//
// Whatever happens, the store is closed and the output written before the status is known: an error
// of either is the status then.
func Run(env Environment) Status {
	f, err := parseFlags(env)
	notes := &LockedWriter{W: env.Err}
	out := bufio.NewWriter(answer{env.Out, notes})
	ctx, stop := signals.Until(context.Background(), 0, programSignals...)
	defer stop()
	s := &Session{
		Ctx: ctx, Dir: f.dir, fs: f.fs, readOnly: f.readOnly, newStore: f.newStore,
		Printer:  output.Printer{Out: out, Display: f.display, Columns: env.Columns},
		toScreen: env.ToScreen, Notes: notes,
	}
	var st Status
	switch {
	case len(env.Args) > 0 && strings.HasPrefix(env.Args[0], cobra.ShellCompRequestCmd):
		st = s.completeShell(env)
	case errors.Is(err, pflag.ErrHelp):
		s.writeHelp(out)
	case err != nil:
		return s.Complain(err)
	case f.version:
		if err := s.showVersion(); err != nil {
			return s.Complain(err)
		}
	default:
		st = s.runMode(env, f)
	}
	if err := s.Close(); err != nil {
		st = max(st, s.Complain(plainly(err)))
	}
	if err := out.Flush(); err != nil && (s.Mode != oneShot || !errors.Is(err, syscall.EPIPE)) {
		st = s.Complain(err) // a single command whose reader has gone has done its work
	}
	return st
}

// runMode runs what f asks for: a command, a script or a prompt.
//
// A terminal without a command is a prompt; anything else on standard input is a script.
func (s *Session) runMode(env Environment, f flags) Status {
	switch {
	case len(f.command) > 0:
		s.Mode, s.in = oneShot, env.In
		return s.runArgs(f.command)
	case len(f.script) > 0:
		s.Mode, s.in = script, env.In
		return s.runScript(strings.NewReader(strings.Join(f.script, "\n")))
	case env.Terminal:
		s.Mode = AtPrompt
		return env.Prompt(s, env)
	}
	s.Mode = script
	return s.runScript(env.In)
}

// parseFlags parses what comes before the command. Its errors are sentences of this program, not of
// pflag.
func parseFlags(env Environment) (flags, error) {
	f := flags{dir: env.Getenv("SHALE_DIR"), fs: vfs.Default}
	set := pflag.NewFlagSet("shale", pflag.ContinueOnError)
	set.Usage = func() {} // Run prints the help
	f.options(set)
	var bad *pflag.InvalidValueError
	switch err := set.Parse(env.Args); {
	case errors.Is(err, pflag.ErrHelp):
		return f, err
	case errors.As(err, &bad):
		return f, bad.Unwrap()
	case err != nil:
		said, _ := optionError(set, err)
		return f, fmt.Errorf("%s; -h lists the options", strings.TrimSuffix(said.Error(), "?"))
	}
	f.command = set.Args()
	if len(f.command) > 0 && len(f.script) > 0 {
		return f, fmt.Errorf("-e gives a script, so the command %s can't follow; leave out one of the two", f.command[0])
	}
	return f, nil
}
