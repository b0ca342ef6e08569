package main

import (
	"context"
	"fmt"
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
	least   int // number of words
	most    int // -1: any
	keys    int // the first so many words are keys, for completion; -1: all
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
}

// arguments are what follows the name of a command, sorted out.
type arguments struct {
	words  []word
	values map[string]string // of the options given, by name
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

// bind sorts out the words that follow the name of c.
func (c *command) bind(words []word) (arguments, error) {
	a := arguments{values: map[string]string{}}
	onlyWords := false
	for len(words) > 0 {
		w := words[0]
		words = words[1:]
		switch {
		case onlyWords || w.literal || !strings.HasPrefix(w.text, "--"):
			a.words = append(a.words, w)
		case w.text == "--":
			onlyWords = true
		default:
			rest, err := c.bindOption(a, w.text[2:], words)
			if err != nil {
				return a, fmt.Errorf("%s: %w", c.name, err)
			}
			words = rest
		}
	}
	if len(a.words) < c.least || c.most >= 0 && len(a.words) > c.most {
		return a, fmt.Errorf("usage: %s", c.usage())
	}
	return a, nil
}

// bindOption stores option text ("name" or "name=arg") and returns the words
// after it and its argument.
func (c *command) bindOption(a arguments, text string, words []word) ([]word, error) {
	name, arg, joined := strings.Cut(text, "=")
	o := c.option(name)
	switch {
	case o == nil:
		return nil, fmt.Errorf("unknown option --%s; write \"--%s\" if it is a word (see help %s)", name, text, c.name)
	case o.arg == "" && joined:
		return nil, fmt.Errorf("option --%s takes no argument", name)
	case o.arg == "":
		a.values[name] = ""
		return words, nil
	case joined:
		w, err := parseArg(arg)
		a.values[name] = w.text
		return words, err
	case len(words) == 0:
		return nil, fmt.Errorf("option --%s needs an argument: --%s %s", name, name, o.arg)
	}
	a.values[name] = words[0].text
	return words[1:], nil
}

func (c *command) option(name string) *option {
	for i := range c.options {
		if c.options[i].name == name {
			return &c.options[i]
		}
	}
	return nil
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
