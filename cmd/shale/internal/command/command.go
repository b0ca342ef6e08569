// Package command is the program without its prompt: the table of commands, the session
// that runs them against a store, scripts, and the formats of files that they read and write.
//
// The way of a line, from the outside in:
//
//	run.go          options of the program; one command, a script, or a prompt
//	session.go      lines, and the store that they share
//	transaction.go  the transaction that they may share, too
//	word.go         a line into words
//	commands.go     the table of commands, by name
//	command.go      words into a command with options (options.go)
//	get.go ...      a file for each command
//	complain.go     errors in plain words, and each damage once
//
// Commands are of two kinds. Those that use the store as a program would, such as get and compact,
// have it opened by the session. Those that look into its files, such as wal, table and find, read
// the folder themselves (folder.go), so the store may be damaged, or open in another program.
//
// import and export read and write files of entries: records.go has lines and TSV, csvrecords.go
// and jsonrecords.go the others, and writerecords.go writes all of them.
//
// Rules that hold for all commands: what is asked for goes to standard output, everything else to
// standard error. An error says what happened, to which thing, and what to do next. A command that
// is interrupted says what it has done. Nothing is created before it is known that it is wanted.
package command

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/cmd/shale/internal/output"
)

// A Status is the exit status of a command.
type Status int

// The statuses are those of grep. Damage is Absent for commands that look for it, and Failed for
// others: a script must not take it for an absent key.
const (
	Found Status = iota
	Absent
	Failed

	Interrupted Status = 130 // as of shells
)

// errUsage is the beginning of an error for too few words or too many.
var errUsage = errors.New("usage")

// errInterrupted is the end of a command's error if a signal has ended it.
var errInterrupted = errors.New("interrupted")

// foundIf returns Found or Absent.
func foundIf(yes bool) Status {
	if yes {
		return Found
	}
	return Absent
}

// An Access is how a command needs the store.
//
// The session opens the store before the command runs, as its access says, and keeps it for the
// next one.
type Access int

// What a command may need.
const (
	needsNothing Access = iota
	Reads               // opened for reading or writing
	writes              // opened for writing; it must exist
	creates             // opened for writing, and created if it does not exist
)

// A run is the function of a command.
//
// ctx ends at Ctrl-C. The words are those that are no options, as many as the command takes. An
// error is shown by the caller, with the name of the program in front.
type run func(ctx context.Context, s *Session, words []Word) (Status, error)

// A Command is a command for one line. Its options are variables of the function that makes
// it. They have the values of that line once the line is parsed.
//
// Package cobra holds the options, and completes them in shells. The session itself finds
// the command and runs it, because a Word knows whether it was quoted, and a word of cobra does
// not.
type Command struct {
	*cobra.Command
	Title string // the name, one word or two
	Words string // what follows the name, for help: "KEY VALUE"

	// How the session prepares the command, and how its words are completed.
	access Access
	late   bool     // the command opens the store itself, once it has its input
	txn    txnUse   // whether it may run in a transaction
	keys   int      // how many of the first words are keys; -1: all
	values []string // the possible values of the first word

	// The state of one line: set when it is parsed.
	run      run
	change   func(s *Session, b *shale.Batch, words []Word) error // adds to b what the line changes; nil: more than that
	mode     *output.Display                                      // the value of --mode; nil: it was not given
	helpOnly bool
	given    []Word // all words of the line after the name, including options
}

// newCommand returns a command. use is its name, followed by the names of its words for help. These
// are in capitals or brackets, as in "export [PREFIX] FILE".
//
// For example, "export [PREFIX] FILE" is the command export with two words, of which the first may be
// missing. The same text is what help and completion show, so they can't differ from what is
// accepted.
func newCommand(use string, access Access, short, long string) *Command {
	fields := strings.Fields(use)
	n := max(1, slices.IndexFunc(append(fields, "["), func(f string) bool { return f[0] == '[' || f[0] >= 'A' && f[0] <= 'Z' }))
	c := &Command{Title: strings.Join(fields[:n], " "), Words: strings.Join(fields[n:], " "), access: access}
	c.Command = &cobra.Command{Use: strings.Join(fields[n-1:], " "), Short: short, Long: long, DisableFlagsInUseLine: true}
	c.Flags().SortFlags = false
	c.Flags().BoolVarP(&c.helpOnly, "help", "h", false, "explain the command")
	c.option("mode", "MODE", "lay out what is printed", func(w Word) error {
		mode, err := displayOf(w.Text)
		c.mode = &mode
		return err
	}, output.DisplayNames...)
	return c
}

// does sets the function of c, and returns c.
func (c *Command) does(fn run) *Command {
	c.run = fn
	return c
}

// ofAll has the options that every command has.
var ofAll = []string{"help", "mode"}

// has reports whether an option was given.
func (c *Command) has(option string) bool { return c.Flags().Changed(option) }

// usage returns how c is called, such as "scan [PREFIX] [OPTION...]". help lists the options.
//
// The same text is in error messages, so that a mistake shows the right form at once.
func (c *Command) usage() string {
	text := strings.TrimSpace(c.Title + " " + c.Words)
	c.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden && !slices.Contains(ofAll, f.Name) && !strings.HasSuffix(text, " [OPTION...]") {
			text += " [OPTION...]"
		}
	})
	return text
}

// number returns the least and the largest number of words that c takes. A largest number of
// -1 means that there is no limit.
//
// For example, it is 1 and 2 for "export [PREFIX] FILE", and 1 and -1 for "del KEY...".
func (c *Command) number() (least, most int) {
	for _, w := range strings.Fields(c.Words) {
		most++
		if w[0] != '[' {
			least++
		}
		if strings.HasSuffix(strings.TrimSuffix(w, "]"), "...") {
			return least, -1
		}
	}
	return least, most
}

// parse parses the words that follow the name of c. It sets the options, and returns the
// words that are not options.
//
// Package pflag sorts options from words, and does it for texts that a shell has split. Here a word
// knows whether it was quoted: tokens and words translate between the two.
func (c *Command) parse(given []Word) ([]Word, error) {
	c.given = given
	if err := c.Flags().Parse(c.tokens()); err != nil {
		return nil, c.optionError(err)
	}
	if c.helpOnly {
		return nil, nil
	}
	words := c.words(c.Flags().Args())
	if least, most := c.number(); len(words) < least || most >= 0 && len(words) > most {
		return nil, fmt.Errorf("%w: %s; help %s says more", errUsage, c.usage(), c.Title)
	}
	return words, nil
}

const (
	wordMark = "\x00" // the first byte of a token that refers to a word by its number in the line
	joinMark = "\x01" // the first byte of an argument that is joined to its option, as in --from=a
)

// tokens returns the words of the line in the form for package pflag. Options stay as they are. Other
// words are replaced by their numbers, so that pflag takes none of them for an option.
//
// For example, the line "get -key --mode hex" becomes the tokens "\x00" followed by 0, "--mode",
// and "\x00" followed by 2.
func (c *Command) tokens() []string {
	list := make([]string, len(c.given))
	for i, w := range c.given {
		list[i] = wordMark + strconv.Itoa(i) // this includes keys that begin with a dash
		short := len(w.Text) == 2 && w.Text[0] == '-' && c.Flags().ShorthandLookup(w.Text[1:]) != nil
		if w.Literal || !short && !strings.HasPrefix(w.Text, "--") {
			continue
		}
		name, argument, joined := strings.Cut(w.Text, "=")
		if f := c.Flags().Lookup(name[min(2, len(name)):]); joined && f != nil && f.NoOptDefVal == "" {
			list[i] = name + "=" + joinMark + argument
		} else {
			list[i] = w.Text
		}
	}
	return list
}

// words returns the words for the tokens that pflag did not take as options.
//
// A token without a mark is an option that stands where the argument of another one is expected.
func (c *Command) words(tokens []string) []Word {
	words := make([]Word, len(tokens))
	for i, token := range tokens {
		if n, ok := strings.CutPrefix(token, wordMark); ok {
			at, _ := strconv.Atoi(n) // tokens wrote this number
			words[i] = c.given[at]
		} else {
			words[i] = Word{Text: token}
		}
	}
	return words
}

// optionError turns an error of pflag about an option of c into one in the words of this program.
//
// A word that begins with two dashes may be meant as a key. The error says how to write it then,
// which differs between a shell and a prompt.
func (c *Command) optionError(err error) error {
	said, meant := optionError(c.Flags(), err)
	var unknown *pflag.NotExistError
	if errors.As(err, &unknown) && !meant {
		write := fmt.Sprintf("\"--%s\"", unknown.GetSpecifiedName())
		if c.given[0].argument { // a shell takes away quotes
			write = "-- before it"
		}
		said = fmt.Errorf("%w; write %s if it is a word (see help %s)", said, write, c.Title)
	}
	return fmt.Errorf("%s: %w", c.Title, said)
}

// optionError turns an error of pflag into one in the words of this program. If the option is unknown, it
// asks whether another one is meant, and returns true if there is one.
func optionError(set *pflag.FlagSet, err error) (said error, meant bool) {
	var unknown *pflag.NotExistError
	var bad *pflag.InvalidValueError
	var empty *pflag.ValueRequiredError
	switch {
	case errors.As(err, &unknown):
		name := "--" + unknown.GetSpecifiedName()
		if short := unknown.GetSpecifiedShortnames(); short != "" {
			name = "-" + short
		}
		var names []string
		set.VisitAll(func(f *pflag.Flag) { names = append(names, "--"+f.Name) })
		names = slices.DeleteFunc(names, func(n string) bool { return n == "--help" })
		question := didYouMean("--"+strings.TrimLeft(name, "-"), names)
		return fmt.Errorf("unknown option %s%s", name, question), question != ""
	case errors.As(err, &bad) && bad.GetFlag().NoOptDefVal != "":
		err = fmt.Errorf("option --%s takes no argument", bad.GetFlag().Name)
	case errors.As(err, &bad):
		err = bad.Unwrap()
	case errors.As(err, &empty):
		name := "--" + empty.GetSpecifiedName()
		if short := empty.GetSpecifiedShortnames(); short != "" {
			name = "-" + short
		}
		err = fmt.Errorf("option %s needs an argument: %s %s", name, name, empty.GetFlag().Value.Type())
	}
	return err, false
}
