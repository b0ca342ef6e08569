// Package command is the program without its prompt: the table of commands, the session
// that runs them against a store, scripts, and the formats of files that they read and write.
package command

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/shaledb/shale/cmd/shale/internal/output"
)

// A Status is the exit status of a command.
type Status int

// The statuses, as those of grep.
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

// An access is how a command needs the store.
type access int

const (
	NeedsNothing access = iota
	Reads               // opened read-only will do
	writes              // opened for writing; it must exist
	creates             // opened for writing, and made if it is not there
)

// A Command is a row of the table.
type Command struct {
	Name    string
	Words   string // what follows the name, for help: "KEY VALUE"
	Options []Option
	Least   int      // number of words
	Most    int      // -1: any
	Keys    int      // the first so many words are keys, for completion; -1: all
	Values  []string // what the first word may be, for completion
	Nested  bool     // runs commands: options among its words are theirs
	data    int      // the first so many words may be @FILE, if more than the keys
	late    bool     // opens the store by itself, when it has its input
	Access  access
	Short   string // for the list
	Long    string // for help NAME
	Run     func(ctx context.Context, s *Session, a Arguments) (Status, error)
}

// An Option of a command is written --name, or --name ARG.
type Option struct {
	Name string
	Arg  string // what to call its argument; empty: it takes none
	help string

	Values []string // what the argument may be, for completion; an arg a|b says so itself
}

// Arguments are what follows the name of a command, sorted out.
type Arguments struct {
	Words  []Word
	values map[string]string // of the options given, by name

	Own      string            // the name of the command
	given    []Word            // all words, those of options too
	settings map[string]string // of the settingOptions given, by name
	places   map[string]Word   // the last word of each option given
}

func (a Arguments) key(i int) []byte { return []byte(a.Words[i].Text) }

func (a Arguments) has(option string) bool {
	_, given := a.values[option]
	return given
}

// bytes returns the argument of an option: nil if it was not given, else not.
func (a Arguments) bytes(option string) []byte {
	text, given := a.values[option]
	if !given {
		return nil
	}
	return append([]byte{}, text...)
}

// optionNumber returns the number, from 1 on, that an option has, or otherwise.
func (a Arguments) optionNumber(option string, otherwise int) (int, error) {
	text, given := a.values[option]
	if !given {
		return otherwise, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		return 0, fmt.Errorf("--%s %s is not a number from 1 on", option, output.Quote(text))
	}
	return n, nil
}

// bind sorts out the words that follow the name of c.
func (c *Command) bind(words []Word) (Arguments, error) {
	a := Arguments{Own: c.Name, given: words, values: map[string]string{}, settings: map[string]string{}, places: map[string]Word{}}
	onlyWords := false
	for len(words) > 0 {
		w := words[0]
		words = words[1:]
		switch {
		case onlyWords || c.Nested && len(a.Words) > 0 || w.Literal || !strings.HasPrefix(w.Text, "--"):
			a.Words = append(a.Words, w)
		case w.Text == "--":
			onlyWords = true
		default:
			rest, err := c.bindOption(a, w, words)
			if err != nil {
				return a, &Mistake{from: w.from, to: w.to, err: fmt.Errorf("%s: %w", c.Name, err)}
			}
			words = rest
		}
	}
	if err := c.readFiles(a.Words); err != nil {
		return a, err
	}
	switch usage := fmt.Errorf("usage: %s", c.usage()); {
	case len(a.Words) < c.Least && len(a.given) > 0:
		end := a.given[len(a.given)-1].to + 1
		return a, &Mistake{from: end, to: end, err: usage}
	case len(a.Words) < c.Least:
		return a, usage
	case c.Most >= 0 && len(a.Words) > c.Most:
		return a, &Mistake{from: a.Words[c.Most].from, to: a.Words[c.Most].to, err: usage}
	}
	return a, nil
}

// bindOption stores option w ("--name" or "--name=arg") and returns the words
// after it and its argument.
func (c *Command) bindOption(a Arguments, w Word, words []Word) ([]Word, error) {
	text := w.Text[2:]
	name, arg, joined := strings.Cut(text, "=")
	o, values := c.option(name), a.values
	if o == nil {
		o, values = OptionIn(SettingOptions, name), a.settings
	}
	a.places[name] = w
	switch {
	case o == nil:
		if meant := c.optionMeant(name); meant != "" {
			return nil, fmt.Errorf("unknown option --%s%s", name, meant)
		}
		return nil, fmt.Errorf("unknown option --%s; write \"--%s\" if it is a word (see help %s)", name, text, c.Name)
	case o.Arg == "" && joined:
		return nil, fmt.Errorf("option --%s takes no argument", name)
	case o.Arg == "":
		values[name] = ""
		return words, nil
	case joined:
		parsed, err := parseArg(arg)
		if err == nil {
			parsed, err = o.read(parsed)
		}
		values[name] = parsed.Text
		return words, err
	case len(words) == 0:
		return nil, fmt.Errorf("option --%s needs an argument: --%s %s", name, name, o.Arg)
	}
	read, err := o.read(words[0])
	values[name], a.places[name] = read.Text, words[0]
	return words[1:], err
}

func (c *Command) option(name string) *Option { return OptionIn(c.Options, name) }

func OptionIn(options []Option, name string) *Option {
	for i := range options {
		if options[i].Name == name {
			return &options[i]
		}
	}
	return nil
}

// optionMeant asks whether an option is meant whose name is nearly that.
func (c *Command) optionMeant(name string) string {
	var names []string
	for _, o := range Join(c.Options, SettingOptions) {
		names = append(names, "--"+o.Name)
	}
	return didYouMean("--"+name, names)
}

// usage returns the line that says how c is written.
func (c *Command) usage() string {
	var b strings.Builder
	b.WriteString(c.Name)
	if c.Words != "" {
		b.WriteString(" " + c.Words)
	}
	for _, o := range c.Options {
		b.WriteString(" [" + o.usage() + "]")
	}
	return b.String()
}

func (o Option) usage() string {
	if o.Arg == "" {
		return "--" + o.Name
	}
	return "--" + o.Name + " " + o.Arg
}
