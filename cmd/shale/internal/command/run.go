package command

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/shaledb/shale"
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

// flags are the options of the program, which come before the command. Those that are about the
// store may also follow the words of a single command.
//
// --mode here is the first mode of the session, and --mode after a command is for that command.
type flags struct {
	// The values of the options, and at last the words of the command.
	dir      string
	named    bool // dir was named on the command line, and not by SHALE_DIR
	fs       vfs.FS
	script   []string
	readOnly bool
	newStore bool
	layout   shale.Options // of what is written
	display  output.Display
	version  bool
	command  []string
}

// options adds the options of the program to a set of package pflag. They end at the first word
// that is no option: the store or the command.
func (f *flags) options(set *pflag.FlagSet) {
	set.SortFlags = false
	set.SetInterspersed(false)
	f.ofStore(set, nil)
	set.VarP(&argument{name: "execute", kind: "LINE", set: func(w Word) error { f.script = append(f.script, w.Text); return nil }},
		"execute", "e", "run this line; may be given several times")
	set.Var(&argument{name: "mode", kind: "MODE", set: func(w Word) (err error) {
		f.display, err = displayOf(w.Text)
		return err
	}}, "mode", "lay out what is printed: "+strings.Join(output.DisplayNames, ", "))
	set.BoolVar(&f.version, "version", false, "print the version of this program, and of the files that it writes")
}

// ofStore adds the options that say which store is opened, and how. of is the command that they follow,
// or nil.
func (f *flags) ofStore(set *pflag.FlagSet, of *Command) {
	set.VarP(&argument{name: "store", kind: "DIR", of: of, set: func(w Word) error { return f.nameStore(w.Text) }},
		"store", "C", "the store, if its name is not the first word; else the variable SHALE_DIR names it")
	set.Var(&argument{name: "key-file", kind: "FILE", of: of, set: func(w Word) (err error) {
		f.fs, err = encrypted(w.Text)
		return err
	}}, "key-file", "the store is encrypted: a number and 64 hexadecimal digits for each key, the newest last")
	set.BoolVar(&f.readOnly, "readonly", f.readOnly, "open the store read-only")
	set.BoolVar(&f.newStore, "new", f.newStore, "also make a store in a folder that has other files")
	filterOptions(set, of, &f.layout)
	set.Var(oneOf(of, &f.layout.Compression, "compression", []string{"snappy", "zstd", "none"}, shale.Snappy, shale.Zstd, shale.NoCompression),
		"compression", "of tables that are written: snappy, the default, zstd or none")
}

// after lets the options about the store follow c. Its help does not list them.
func (f *flags) after(c *Command) {
	set := pflag.NewFlagSet("", pflag.ContinueOnError)
	f.ofStore(set, c)
	set.VisitAll(func(o *pflag.Flag) { o.Hidden = true })
	c.Flags().AddFlagSet(set) // but for those of the same name
}

// nameStore sets the store. Its error continues a sentence that begins with a second name.
func (f *flags) nameStore(dir string) error {
	if f.named && dir != f.dir {
		return fmt.Errorf("is a second store, after %s; name one", output.Quote(f.dir))
	}
	f.dir, f.named = dir, true
	return nil
}

// namesStore reports whether the first of the words that follow the options names a store, and not a
// command. It does if it can't be a command, and is there, looks like a path, or has a command behind it.
func namesStore(words []string) bool {
	var s Session
	name := words[0]
	_, err := os.Stat(name)
	switch {
	case name == "" || s.command(name) != nil || (synonyms[name] != "" || former[name] != "") && err != nil:
		return false
	case err == nil || strings.ContainsAny(name, "/"+string(filepath.Separator)) || strings.LastIndexByte(name, '.') > 0:
		return true
	}
	return len(words) > 1 && s.command(words[1]) != nil
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

// useFlags makes the session open the store that the options name, as they say.
func (s *Session) useFlags() {
	s.Dir, s.fs, s.readOnly, s.newStore, s.layout = s.flags.dir, s.flags.fs, s.flags.readOnly, s.flags.newStore, s.flags.layout
}

// Run runs the program and returns its exit status.
//
// Whatever happens, the store is closed and the output written before the status is known: an error
// of either is the status then.
func Run(env Environment) Status {
	f, err := parseFlags(env)
	notes := &LockedWriter{W: env.Err}
	if f, ok := env.Err.(*os.File); ok && isTerminal(f) && env.colours() {
		notes.warning = output.Bad
	}
	out := bufio.NewWriter(answer{env.Out, notes})
	ctx, stop := signals.Until(context.Background(), 0, programSignals...)
	defer stop()
	s := &Session{
		Ctx: ctx, flags: &f,
		Printer:  output.Printer{Out: out, Display: f.display, Columns: env.Columns, Colours: env.ToScreen && env.colours()},
		toScreen: env.ToScreen, Notes: notes,
	}
	s.useFlags()
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

// colours reports whether a terminal may get colours: not one without any, nor if the user wants none (no-color.org).
func (env Environment) colours() bool {
	return env.Getenv("NO_COLOR") == "" && env.Getenv("TERM") != "dumb"
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
	err := set.Parse(env.Args)
	if rest := set.Args(); err == nil && len(rest) > 0 && !f.named && namesStore(rest) {
		f.dir, f.named = rest[0], true
		err = set.Parse(rest[1:])
	}
	switch {
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
