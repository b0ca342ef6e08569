package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
)

// A status is the exit status of a command.
type status int

// The statuses, as those of grep.
const (
	found status = iota
	absent
	failed
)

// foundIf turns the answer of a question into a status.
func foundIf(yes bool) status {
	if yes {
		return found
	}
	return absent
}

// An access is how a command needs the store.
type access int

const (
	needsNothing access = iota
	reads               // opened read-only will do
	writes              // opened for writing; it must exist
	creates             // opened for writing, and made if it is not there
)

// A command is a row of the table.
type command struct {
	name    string
	words   string // what follows the name, for help: "KEY VALUE"
	options []option
	least   int      // number of words
	most    int      // -1: any
	keys    int      // the first so many words are keys, for completion; -1: all
	values  []string // what the first word may be, for completion
	nested  bool     // runs commands: options among its words are theirs
	data    int      // the first so many words may be @FILE, if more than the keys
	late    bool     // opens the store by itself, when it has its input
	access  access
	short   string // for the list
	long    string // for help NAME
	run     func(ctx context.Context, s *session, a arguments) (status, error)
}

// An option of a command is written --name, or --name ARG.
type option struct {
	name string
	arg  string // what to call its argument; empty: it takes none
	help string

	values []string // what the argument may be, for completion; an arg a|b says so itself
}

// arguments are what follows the name of a command, sorted out.
type arguments struct {
	words  []word
	values map[string]string // of the options given, by name

	own      string            // the name of the command
	given    []word            // all words, those of options too
	settings map[string]string // of the settingOptions given, by name
	places   map[string]word   // the last word of each option given
}

func (a arguments) key(i int) []byte { return []byte(a.words[i].text) }

func (a arguments) has(option string) bool {
	_, given := a.values[option]
	return given
}

// bytes returns the argument of an option: nil if it was not given, else not.
func (a arguments) bytes(option string) []byte {
	text, given := a.values[option]
	if !given {
		return nil
	}
	return append([]byte{}, text...)
}

// optionNumber returns the number, from 1 on, that an option has, or otherwise.
func (a arguments) optionNumber(option string, otherwise int) (int, error) {
	text, given := a.values[option]
	if !given {
		return otherwise, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		return 0, fmt.Errorf("--%s %s is not a number from 1 on", option, quote(text))
	}
	return n, nil
}

// bind sorts out the words that follow the name of c.
func (c *command) bind(words []word) (arguments, error) {
	a := arguments{own: c.name, given: words, values: map[string]string{}, settings: map[string]string{}, places: map[string]word{}}
	onlyWords := false
	for len(words) > 0 {
		w := words[0]
		words = words[1:]
		switch {
		case onlyWords || c.nested && len(a.words) > 0 || w.literal || !strings.HasPrefix(w.text, "--"):
			a.words = append(a.words, w)
		case w.text == "--":
			onlyWords = true
		default:
			rest, err := c.bindOption(a, w, words)
			if err != nil {
				return a, &mistake{from: w.from, to: w.to, err: fmt.Errorf("%s: %w", c.name, err)}
			}
			words = rest
		}
	}
	if err := c.readFiles(a.words); err != nil {
		return a, err
	}
	switch usage := fmt.Errorf("usage: %s", c.usage()); {
	case len(a.words) < c.least && len(a.given) > 0:
		end := a.given[len(a.given)-1].to + 1
		return a, &mistake{from: end, to: end, err: usage}
	case len(a.words) < c.least:
		return a, usage
	case c.most >= 0 && len(a.words) > c.most:
		return a, &mistake{from: a.words[c.most].from, to: a.words[c.most].to, err: usage}
	}
	return a, nil
}

// bindOption stores option w ("--name" or "--name=arg") and returns the words
// after it and its argument.
func (c *command) bindOption(a arguments, w word, words []word) ([]word, error) {
	text := w.text[2:]
	name, arg, joined := strings.Cut(text, "=")
	o, values := c.option(name), a.values
	if o == nil {
		o, values = optionIn(settingOptions, name), a.settings
	}
	a.places[name] = w
	switch {
	case o == nil:
		if meant := c.optionMeant(name); meant != "" {
			return nil, fmt.Errorf("unknown option --%s%s", name, meant)
		}
		return nil, fmt.Errorf("unknown option --%s; write \"--%s\" if it is a word (see help %s)", name, text, c.name)
	case o.arg == "" && joined:
		return nil, fmt.Errorf("option --%s takes no argument", name)
	case o.arg == "":
		values[name] = ""
		return words, nil
	case joined:
		parsed, err := parseArg(arg)
		if err == nil {
			parsed, err = o.read(parsed)
		}
		values[name] = parsed.text
		return words, err
	case len(words) == 0:
		return nil, fmt.Errorf("option --%s needs an argument: --%s %s", name, name, o.arg)
	}
	read, err := o.read(words[0])
	values[name], a.places[name] = read.text, words[0]
	return words[1:], err
}

func (c *command) option(name string) *option { return optionIn(c.options, name) }

func optionIn(options []option, name string) *option {
	for i := range options {
		if options[i].name == name {
			return &options[i]
		}
	}
	return nil
}

// optionMeant asks whether an option is meant whose name is nearly that.
func (c *command) optionMeant(name string) string {
	var names []string
	for _, o := range join(c.options, settingOptions) {
		names = append(names, "--"+o.name)
	}
	return didYouMean("--"+name, names)
}

// usage returns the line that says how c is written.
func (c *command) usage() string {
	var b strings.Builder
	b.WriteString(c.name)
	if c.words != "" {
		b.WriteString(" " + c.words)
	}
	for _, o := range c.options {
		b.WriteString(" [" + o.usage() + "]")
	}
	return b.String()
}

func (o option) usage() string {
	if o.arg == "" {
		return "--" + o.name
	}
	return "--" + o.name + " " + o.arg
}
