package resp

import (
	"maps"
	"slices"
	"strings"
)

// A Command is an entry of a table of commands, in the terms of Redis. D is what does it.
type Command[D any] struct {
	Name  string // in capitals
	Arity int    // number of arguments, the name included; -n: at least n
	Flags string // separated by spaces
	// Keys are at First, First+Step and so on to Last, which is -1 for the last argument. First is 0 if
	// there are none. With a Step of 2, each key has a value behind it.
	First, Last, Step int
	Do                D

	Index int // among all commands of the table in the order of names; NewTable sets it
}

// Takes reports whether the command has the right number of arguments, the name included.
func (c *Command[D]) Takes(args [][]byte) bool {
	n := len(args)
	return (c.Arity < 0 || n == c.Arity) && n >= -c.Arity && (c.Step != 2 || n%2 == 1)
}

// Keys returns the keys among the arguments, of which the first is the name.
func (c *Command[D]) Keys(args [][]byte) func(yield func(key []byte) bool) {
	return func(yield func(key []byte) bool) {
		if c.First == 0 {
			return
		}
		last := c.Last
		if last < 0 {
			last = len(args) - 1
		}
		for i := c.First; i <= last; i += c.Step {
			if !yield(args[i]) {
				return
			}
		}
	}
}

// A Table has the commands of a server.
type Table[D any] struct {
	byName map[string]*Command[D]
	sorted []*Command[D]
}

// NewTable makes a table of commands, whose names differ.
func NewTable[D any](commands []Command[D]) *Table[D] {
	t := &Table[D]{byName: make(map[string]*Command[D])}
	for i := range commands {
		t.byName[commands[i].Name] = &commands[i]
	}
	for _, name := range slices.Sorted(maps.Keys(t.byName)) {
		c := t.byName[name]
		c.Index = len(t.sorted)
		t.sorted = append(t.sorted, c)
	}
	return t
}

// All returns the commands in the order of names.
func (t *Table[D]) All() []*Command[D] { return t.sorted }

// LookUp finds a command by its name in any case. It allocates nothing.
func (t *Table[D]) LookUp(name []byte) *Command[D] {
	var upper [16]byte
	if len(name) > len(upper) {
		return nil
	}
	for i, b := range name {
		if 'a' <= b && b <= 'z' {
			b -= 'a' - 'A'
		}
		upper[i] = b
	}
	return t.byName[string(upper[:len(name)])]
}

// Command is COMMAND: the table, for clients that ask for it.
func (t *Table[D]) Command(s *Session, args [][]byte) {
	switch {
	case len(args) == 0:
		s.Array(len(t.sorted))
		for _, c := range t.sorted {
			c.describe(s)
		}
	case Is(args[0], "COUNT") && len(args) == 1:
		s.Integer(int64(len(t.sorted)))
	case Is(args[0], "INFO"):
		s.Array(len(args) - 1)
		for _, name := range args[1:] {
			if c := t.LookUp(name); c != nil {
				c.describe(s)
			} else {
				s.NullArray()
			}
		}
	case Is(args[0], "DOCS"):
		s.Map(0) // redis-cli then gives no hints
	default:
		s.Error("ERR unknown subcommand '" + s.Show(args[0]) + "'")
	}
}

func (c *Command[D]) describe(s *Session) {
	s.Array(6)
	s.BulkString(strings.ToLower(c.Name))
	s.Integer(int64(c.Arity))
	flags := strings.Fields(c.Flags)
	s.Array(len(flags))
	for _, flag := range flags {
		s.Simple(flag)
	}
	s.Integer(int64(c.First))
	s.Integer(int64(c.Last))
	s.Integer(int64(c.Step))
}
