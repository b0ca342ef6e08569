// Command shale looks into a store, and changes it, from a shell:
//
//	shale -C hosts.db put www.example.org seen    one command
//	shale -C hosts.db < script                    a script, or -e 'get k'
//	shale -C hosts.db                             a prompt, on a terminal
//
// One table of commands (table.go) serves all three, help and completion.
// `shale help` lists them.
//
// # Words
//
// A command is a line of words, with spaces between them. A word is written
//
//	www.example.org       bare: up to the next space, taken as it is
//	"two words\n\x00é"    quoted: with the escapes of Go, any bytes
//	0x6b6579              in hexadecimal: the bytes 6b 65 79
//
//	@FILE                 where a key or a value is expected: the bytes of the file
//
// and printed bare where it can be, else quoted, so that what is printed can
// be pasted back as input and means the same bytes. On a shell's command line
// each argument is one word, which may have bare spaces in it. A line whose
// first character is # is a comment.
//
// # Exit status
//
// As that of grep: 0 found (or done), 1 absent (or damaged), 2 error. A script stops at its
// first error, with status 2; else its status is the highest of its commands. It is
// no error if the output of a single command is not read to its end, as by head.
//
// # Signals
//
// Ctrl-C ends a command, which says how far it has come, with status 2. SIGTERM
// and SIGHUP do the same, and end a prompt and a script after the command.
//
// # Opening
//
// Commands that only read open the store read-only. That takes no lock, so
// they work beside a program that has it open, and show the state of that
// moment. A script is opened for writing when its first writing command comes,
// the prompt at once if nobody else has the store open. Only put, batch, import
// and dedup create a store, once their input is there, in a folder that is missing
// or empty; with -new also in one that has other files in it. What a command wrote is
// durable when it ends; what a script wrote, at most a tenth of a second later,
// and when it ends.
package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/peterh/liner"
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
}

func main() {
	// A reader of our output that goes away is an error of a write, like any
	// other: the store is closed before the program ends.
	signal.Ignore(syscall.SIGPIPE)
	_, notTerminal := liner.TerminalMode()
	os.Exit(int(run(environment{
		args:     os.Args[1:],
		in:       os.Stdin,
		out:      os.Stdout,
		err:      os.Stderr,
		terminal: notTerminal == nil && isCharDevice(os.Stdout),
		getenv:   os.Getenv,
		columns:  func() int { return terminalWidth(os.Stdout) },
	})))
}

func isCharDevice(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

var errClosedInput = errors.New("standard input is closed, so that there is nothing to read; < FILE or a pipe gives it something")

// checkInput returns an error if in was closed when the program began. The Go
// runtime then opens the null device in its place, for reading and for writing.
// Programs that mean the null device open it for reading alone. (That standard
// output was closed cannot be known: Python and Node open the null device for both
// when they throw output away.)
func checkInput(in io.Reader) error {
	f, ok := in.(*os.File)
	if !ok || !isCharDevice(f) || !isNull(f) {
		return nil
	}
	if _, err := f.Write([]byte{0}); err != nil {
		return nil
	}
	return errClosedInput
}

// isNull tells whether f is the null device.
func isNull(f *os.File) bool {
	info, err := f.Stat()
	if err != nil {
		return false
	}
	null, err := os.Stat(os.DevNull)
	return err == nil && os.SameFile(info, null)
}

// flags are the options of the program, which stand before the command.
type flags struct {
	dir      string
	script   lines
	readOnly bool
	newStore bool
	format   format
	settings settings
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
		ctx: ctx, dir: f.dir, readOnly: f.readOnly, newStore: f.newStore, format: f.format,
		settings: f.settings, columns: env.columns,
		out: out, syncOutput: syncOf(env.out), notes: &lockedWriter{w: env.err},
	}
	var st status
	switch {
	case errors.Is(err, flag.ErrHelp):
		writeHelp(out)
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
		return s.runPrompt(env)
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
	set.BoolVar(&f.settings.timer, "timer", false, "")
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
	if f.settings.display, err = displayOf(mode); err != nil {
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
