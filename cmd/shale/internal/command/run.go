package command

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"
	"syscall"

	"github.com/shaledb/shale/cmd/shale/internal/output"
)

// An Environment is what a process has from its surroundings; tests make
// their own.
type Environment struct {
	Args     []string // without the program's name
	In       io.Reader
	Out, Err io.Writer
	Terminal bool // in and out are a terminal
	Getenv   func(string) string
	Columns  func() int // of the terminal that is out; 0, or nil: not known

	More   []Group                                  // commands beside those of this package
	Prompt func(s *Session, env Environment) Status // reads commands from the terminal
}

// flags are the options of the program, which stand before the command.
type flags struct {
	dir      string
	script   lines
	readOnly bool
	newStore bool
	format   output.Format
	display  output.Display
	timer    bool
	command  []string
}

// lines collects the arguments of a flag given several times.
type lines []string

func (l *lines) String() string     { return strings.Join(*l, "\n") }
func (l *lines) Set(s string) error { *l = append(*l, s); return nil }

// Run is the program; it returns the exit status.
func Run(env Environment) Status {
	f, err := parseFlags(env)
	out := bufio.NewWriter(env.Out)
	ctx, stop := untilSignal(context.Background(), programSignals)
	defer stop()
	s := &Session{
		Ctx: ctx, Dir: f.dir, readOnly: f.readOnly, newStore: f.newStore, Timer: f.timer, More: env.More,
		Printer:    output.Printer{Out: out, Display: f.display, Format: f.format, Columns: env.Columns},
		syncOutput: syncOf(env.Out), Notes: &LockedWriter{W: env.Err},
	}
	var st Status
	switch {
	case errors.Is(err, flag.ErrHelp):
		s.writeHelp(out)
	case err != nil:
		return s.Complain(err)
	default:
		st = s.runMode(env, f)
	}
	if err := s.Close(); err != nil {
		st = s.Complain(err)
	}
	if err := out.Flush(); err != nil && (s.Mode != oneShot || !errors.Is(err, syscall.EPIPE)) {
		st = s.Complain(err) // else the command has done its work
	}
	return st
}

// runMode does what f asks for: a command, a script or a prompt.
func (s *Session) runMode(env Environment, f flags) Status {
	switch {
	case len(f.command) > 0:
		s.Mode, s.in = oneShot, env.In
		return s.runArgs(f.command)
	case len(f.script) > 0:
		s.Mode, s.in = script, env.In
		return s.runScript(strings.NewReader(f.script.String()))
	case env.Terminal:
		s.Mode = AtPrompt
		return env.Prompt(s, env)
	}
	if err := checkInput(env.In); err != nil {
		return s.Complain(err)
	}
	s.Mode = script
	return s.runScript(env.In)
}

func parseFlags(env Environment) (flags, error) {
	f := flags{dir: env.Getenv("SHALE_DIR")}
	var hex, raw bool
	var mode string
	set := flag.NewFlagSet("shale", flag.ContinueOnError)
	set.SetOutput(io.Discard) // run prints the error, and the help
	set.StringVar(&f.dir, "C", f.dir, "")
	set.Var(&f.script, "e", "")
	set.BoolVar(&f.readOnly, "readonly", false, "")
	set.BoolVar(&f.newStore, "new", false, "")
	set.BoolVar(&hex, "hex", false, "")
	set.BoolVar(&raw, "raw", false, "")
	set.StringVar(&mode, "mode", output.ShowText.String(), "")
	set.BoolVar(&f.timer, "timer", false, "")
	if err := set.Parse(env.Args); errors.Is(err, flag.ErrHelp) {
		return f, err
	} else if err != nil {
		return f, fmt.Errorf("%w%s; -h lists the options", err, flagMeant(set, err))
	}
	f.command = set.Args()
	if len(f.command) > 0 && len(f.script) > 0 {
		return f, fmt.Errorf("-e is a script already: command %s is too much", f.command[0])
	}
	var err error
	if f.display, err = DisplayOf(mode); err != nil {
		return f, fmt.Errorf("-mode %w", err)
	}
	f.format, err = output.FormatOf(hex, raw)
	return f, err
}

// flagMeant asks whether a flag is meant whose name is nearly that which err,
// an error of set, ends with.
func flagMeant(set *flag.FlagSet, err error) string {
	text := err.Error()
	var names []string
	set.VisitAll(func(f *flag.Flag) { names = append(names, "-"+f.Name) })
	return strings.TrimSuffix(didYouMean(text[strings.LastIndex(text, " ")+1:], names), "?")
}
