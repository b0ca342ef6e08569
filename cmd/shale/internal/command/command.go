// Package command is the program without its prompt: the table of commands, the session
// that runs them against a store, scripts, and the formats of files that they read and write.
package command

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/shaledb/shale/cmd/shale/internal/output"
)

// A Status is the exit status of a command.
type Status int

// The statuses are those of grep.
const (
	Found Status = iota
	Absent
	Failed
)

// foundIf turns the answer of a question into a status.
func foundIf(yes bool) Status {
	if yes {
		return Found
	}
	return Absent
}

// An Access is how a command needs the store.
type Access int

// What a command may need.
const (
	NeedsNothing Access = iota
	Reads               // opened read-only will do
	writes              // opened for writing; it must exist
	creates             // opened for writing, and made if it is not there
)

// A run does what a command is for.
type run func(ctx context.Context, s *Session, words []Word) (Status, error)

// A Command is one command, made for one line: its options are variables of the function
// that makes it, and have the values of that line once the line is parsed.
//
// Package cobra has the options, and completes them in shells. The session finds the
// command and runs it, because words of a line know where they stand and whether they
// were quoted, and cobra's do not.
type Command struct {
	*cobra.Command
	Title string // the name: one word or two
	Words string // what follows the name, for help: "KEY VALUE"

	access Access
	late   bool     // opens the store by itself, when it has its input
	Nested bool     // runs commands: options among its words are theirs
	keys   int      // the first so many words are keys; -1: all
	files  int      // the first so many words may be @FILE, if more than the keys
	Values []string // what the first word may be

	run      run
	mode     *output.Display // of the option --mode; nil: it was not given
	timer    bool
	helpOnly bool
	given    []Word // all words of the line behind the name, options too
}

// New returns a command. use is its name, and after it what help calls its words, in
// capitals or brackets: "filters export [DIR] FILE".
func New(use string, access Access, short, long string) *Command {
	fields := strings.Fields(use)
	n := max(1, slices.IndexFunc(append(fields, "["), func(f string) bool { return f[0] == '[' || f[0] >= 'A' && f[0] <= 'Z' }))
	c := &Command{Title: strings.Join(fields[:n], " "), Words: strings.Join(fields[n:], " "), access: access}
	c.Command = &cobra.Command{Use: strings.Join(fields[n-1:], " "), Short: short, Long: long, DisableFlagsInUseLine: true}
	c.Flags().SortFlags = false
	c.Flags().BoolVarP(&c.helpOnly, "help", "h", false, "explain the command")
	c.option("mode", "MODE", "lay out what is printed", func(w Word) error {
		mode, err := DisplayOf(w.Text)
		c.mode = &mode
		return err
	}, output.DisplayNames...)
	c.flag(&c.timer, "timer", "print how long the command took")
	return c
}

// Does says what c does, and returns c.
func (c *Command) Does(fn run) *Command {
	c.run = fn
	return c
}

// ofAll are the options that every command has.
var ofAll = []string{"help", "mode", "timer"}

// own calls fn for the options that not every command has.
func (c *Command) own(fn func(f *pflag.Flag)) {
	c.Flags().VisitAll(func(f *pflag.Flag) {
		if !slices.Contains(ofAll, f.Name) && !f.Hidden {
			fn(f)
		}
	})
}

// has asks whether an option was given.
func (c *Command) has(option string) bool { return c.Flags().Changed(option) }

// usage says how c is called.
func (c *Command) usage() string {
	options := ""
	c.own(func(f *pflag.Flag) { options += " [" + optionUsage(f) + "]" })
	if len(options) > 40 { // help lists them
		options = " [OPTION...]"
	}
	return strings.TrimSpace(c.Title+" "+c.Words) + options
}

// number returns how many words c takes at least and at most; -1: any number.
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

// parse sorts out the words that follow the name of c, and returns those that are no
// options.
func (c *Command) parse(given []Word) ([]Word, error) {
	c.given = given
	flags := c.Flags()
	flags.SetInterspersed(!c.Nested)
	if err := flags.Parse(c.tokens(given)); err != nil {
		return nil, c.optionMistake(err)
	}
	if c.helpOnly {
		return nil, nil
	}
	words := c.places(flags.Args())
	if err := c.readFiles(words); err != nil {
		return nil, err
	}
	least, most := c.number()
	usage := fmt.Errorf("usage: %s; help %s says more", c.usage(), c.Title)
	switch {
	case len(words) < least && len(given) > 0:
		end := given[len(given)-1].to + 1
		return nil, &Mistake{from: end, to: end, err: usage}
	case len(words) < least:
		return nil, usage
	case most >= 0 && len(words) > most:
		return nil, &Mistake{from: words[most].from, to: words[most].to, err: usage}
	}
	return words, nil
}

// tokens returns words as package pflag gets them: options as they are, others so that it
// takes none of them for an option.
func (c *Command) tokens(words []Word) []string {
	list := make([]string, len(words))
	only := false // words follow
	for i, w := range words {
		name, value, joined := strings.Cut(w.Text, "=")
		switch isOption := strings.HasPrefix(w.Text, "--"); {
		case joined && isOption && !only && !w.Literal && strings.HasPrefix(value, "\x00"):
			list[i] = name + "=" + bareMark + value
		case w.Literal:
			list[i] = literalMark + w.Text
		case strings.HasPrefix(w.Text, "\x00"):
			list[i] = bareMark + w.Text
		case only || !strings.HasPrefix(w.Text, "-") || w.Text == "-" || isOption:
			list[i] = w.Text
		case len(w.Text) == 2 && c.Flags().ShorthandLookup(w.Text[1:]) != nil:
			list[i] = w.Text
		default:
			list[i] = bareMark + w.Text // a key may begin with a dash
		}
		only = only || list[i] == "--"
	}
	return list
}

// places returns the words that tokens stand for, with their places in the line.
func (c *Command) places(tokens []string) []Word {
	words := make([]Word, len(tokens))
	from := 0
	for i, token := range tokens {
		words[i] = wordOf(token)
		for j := from; j < len(c.given); j++ {
			w := c.given[j]
			if f := c.optionOf(w); f != nil && f.NoOptDefVal == "" && !strings.Contains(w.Text, "=") {
				j++ // its argument
				continue
			}
			if w.Text == words[i].Text && w.Literal == words[i].Literal {
				words[i], from = w, j+1
				break
			}
		}
	}
	return words
}

// optionOf returns the option that w names, or nil.
func (c *Command) optionOf(w Word) *pflag.Flag {
	name, isOption := strings.CutPrefix(w.Text, "--")
	if !isOption || w.Literal {
		return nil
	}
	name, _, _ = strings.Cut(name, "=")
	return c.Flags().Lookup(name)
}

// optionMistake says in our words what pflag found wrong with an option.
func (c *Command) optionMistake(err error) error {
	var unknown *pflag.NotExistError
	var bad *pflag.InvalidValueError
	var empty *pflag.ValueRequiredError
	name := ""
	switch {
	case errors.As(err, &unknown):
		name = unknown.GetSpecifiedName()
		if meant := c.optionMeant(name); meant != "" {
			err = fmt.Errorf("unknown option --%s%s", name, meant)
		} else {
			err = fmt.Errorf("unknown option --%s; write \"--%s\" if it is a word (see help %s)", name, name, c.Title)
		}
	case errors.As(err, &bad) && bad.GetFlag().NoOptDefVal != "":
		name = bad.GetFlag().Name
		err = fmt.Errorf("option --%s takes no argument", name)
	case errors.As(err, &bad):
		name, err = bad.GetFlag().Name, errors.Unwrap(err)
	case errors.As(err, &empty):
		name = empty.GetSpecifiedName()
		err = fmt.Errorf("option --%s needs an argument: --%s %s", name, name, empty.GetFlag().Value.Type())
	}
	err = fmt.Errorf("%s: %w", c.Title, err)
	from, to := c.placeOf(name)
	if to == 0 {
		return err
	}
	return &Mistake{from: from, to: to, err: err}
}

// placeOf returns where an option and its argument stand, 0 if they do not.
func (c *Command) placeOf(option string) (from, to int) {
	for i, w := range c.given {
		name, _, joined := strings.Cut(w.Text, "=")
		if w.Literal || name != "--"+option {
			continue
		}
		from, to = w.from, w.to
		if f := c.Flags().Lookup(option); f != nil && f.NoOptDefVal == "" && !joined && i+1 < len(c.given) {
			to = c.given[i+1].to
		}
	}
	return from, to
}

// optionMeant asks whether an option is meant whose name is nearly that.
func (c *Command) optionMeant(name string) string {
	var names []string
	c.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, "--"+f.Name) })
	return didYouMean("--"+name, slices.DeleteFunc(names, func(n string) bool { return n == "--help" }))
}
