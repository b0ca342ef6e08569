package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"
	"syscall"
)

// An environment is what a process has from its surroundings; tests make
// their own.
type environment struct {
	args     []string // without the program's name
	in       io.Reader
	out, err io.Writer
	terminal bool // in and out are a terminal
	getenv   func(string) string
	columns  func() int // of the terminal that is out; 0, or nil: not known

	more   []group                                  // commands beside those of this package
	prompt func(s *session, env environment) status // reads commands from the terminal
}

// flags are the options of the program, which stand before the command.
type flags struct {
	dir      string
	script   lines
	readOnly bool
	newStore bool
	format   format
	display  display
	timer    bool
	command  []string
}

// lines collects the arguments of a flag given several times.
type lines []string

func (l *lines) String() string     { return strings.Join(*l, "\n") }
func (l *lines) Set(s string) error { *l = append(*l, s); return nil }

// run is the program; it returns the exit status.
func run(env environment) status {
	f, err := parseFlags(env)
	out := bufio.NewWriter(env.out)
	ctx, stop := untilSignal(context.Background(), programSignals)
	defer stop()
	s := &session{
		ctx: ctx, dir: f.dir, readOnly: f.readOnly, newStore: f.newStore, timer: f.timer, more: env.more,
		printer:    printer{out: out, display: f.display, format: f.format, columns: env.columns},
		syncOutput: syncOf(env.out), notes: &lockedWriter{w: env.err},
	}
	var st status
	switch {
	case errors.Is(err, flag.ErrHelp):
		s.writeHelp(out)
	case err != nil:
		return s.complain(err)
	default:
		st = s.runMode(env, f)
	}
	if err := s.close(); err != nil {
		st = s.complain(err)
	}
	if err := out.Flush(); err != nil && (s.mode != oneShot || !errors.Is(err, syscall.EPIPE)) {
		st = s.complain(err) // else the command has done its work
	}
	return st
}

// runMode does what f asks for: a command, a script or a prompt.
func (s *session) runMode(env environment, f flags) status {
	switch {
	case len(f.command) > 0:
		s.mode, s.in = oneShot, env.in
		return s.runArgs(f.command)
	case len(f.script) > 0:
		s.mode, s.in = script, env.in
		return s.runScript(strings.NewReader(f.script.String()))
	case env.terminal:
		s.mode = prompt
		return env.prompt(s, env)
	}
	if err := checkInput(env.in); err != nil {
		return s.complain(err)
	}
	s.mode = script
	return s.runScript(env.in)
}

func parseFlags(env environment) (flags, error) {
	f := flags{dir: env.getenv("SHALE_DIR")}
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
	set.StringVar(&mode, "mode", showText.String(), "")
	set.BoolVar(&f.timer, "timer", false, "")
	if err := set.Parse(env.args); errors.Is(err, flag.ErrHelp) {
		return f, err
	} else if err != nil {
		return f, fmt.Errorf("%w%s; -h lists the options", err, flagMeant(set, err))
	}
	f.command = set.Args()
	if len(f.command) > 0 && len(f.script) > 0 {
		return f, fmt.Errorf("-e is a script already: command %s is too much", f.command[0])
	}
	var err error
	if f.display, err = displayOf(mode); err != nil {
		return f, fmt.Errorf("-mode %w", err)
	}
	f.format, err = formatOf(hex, raw)
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
