package server

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/tidwall/redcon"

	"github.com/shaledb/shale"
)

// A command is an entry of the table of commands, in the terms of Redis.
type command struct {
	name  string // in capitals
	arity int    // number of arguments, the name included; -n: at least n
	flags string // separated by spaces
	// keys are at first, first+step and so on to last, which is -1 for the last argument.
	// first is 0 if there are none.
	first, last, step int
	// One of these is set. A command that reads is done within a read of the group, and gets its Reader. Those
	// with a kind are done by the run of their kind, alone too.
	do   func(c *client, args [][]byte) // without the name
	read func(c *client, r shale.Reader, args [][]byte)
	kind kind

	index int // among all commands in the order of names
}

// commands is the table, by name.
var commands = make(map[string]*command)

// noExpiry is what commands and options about expiry are answered with.
const noExpiry = "ERR keys do not expire in this server: shale has no expiry yet"

func init() {
	refuse := func(c *client, _ [][]byte) { c.error(noExpiry) }
	for _, t := range []command{
		{name: "PING", arity: -1, flags: "fast", do: (*client).ping},
		{name: "ECHO", arity: 2, flags: "fast", do: (*client).echo},
		{name: "SELECT", arity: 2, flags: "fast", do: (*client).selectDB},
		{name: "QUIT", arity: -1, flags: "fast no_auth", do: (*client).doQuit},
		{name: "AUTH", arity: -2, flags: "fast no_auth", do: (*client).auth},
		{name: "HELLO", arity: -1, flags: "fast no_auth", do: (*client).hello},
		{name: "CLIENT", arity: -2, do: (*client).client},
		{name: "COMMAND", arity: -1, do: (*client).command},
		{name: "CONFIG", arity: -2, do: (*client).configGet},
		{name: "INFO", arity: -1, do: (*client).info},

		{name: "GET", arity: 2, flags: "readonly fast", first: 1, last: 1, step: 1, read: (*client).get},
		{name: "MGET", arity: -2, flags: "readonly fast", first: 1, last: -1, step: 1, read: (*client).mget},
		{name: "EXISTS", arity: -2, flags: "readonly fast", first: 1, last: -1, step: 1, read: (*client).exists},
		{name: "STRLEN", arity: 2, flags: "readonly fast", first: 1, last: 1, step: 1, read: (*client).strlen},
		{name: "TYPE", arity: 2, flags: "readonly fast", first: 1, last: 1, step: 1, read: (*client).typeOf},
		{name: "TTL", arity: 2, flags: "readonly fast", first: 1, last: 1, step: 1, read: (*client).ttl},
		{name: "PTTL", arity: 2, flags: "readonly fast", first: 1, last: 1, step: 1, read: (*client).ttl},
		{name: "SCAN", arity: -2, flags: "readonly", read: (*client).scan},
		{name: "DBSIZE", arity: 1, flags: "readonly", read: (*client).dbSize},

		{name: "SET", arity: -3, flags: "write", first: 1, last: 1, step: 1, do: (*client).set},
		{name: "SETNX", arity: 3, flags: "write fast", first: 1, last: 1, step: 1, do: (*client).setNX},
		{name: "MSET", arity: -3, flags: "write", first: 1, last: -1, step: 2, kind: puts},
		{name: "DEL", arity: -2, flags: "write", first: 1, last: -1, step: 1, kind: deletes},
		{name: "UNLINK", arity: -2, flags: "write fast", first: 1, last: -1, step: 1, kind: deletes},

		{name: "EXPIRE", arity: -3, flags: "write fast", first: 1, last: 1, step: 1, do: refuse},
		{name: "PEXPIRE", arity: -3, flags: "write fast", first: 1, last: 1, step: 1, do: refuse},
		{name: "EXPIREAT", arity: -3, flags: "write fast", first: 1, last: 1, step: 1, do: refuse},
		{name: "PEXPIREAT", arity: -3, flags: "write fast", first: 1, last: 1, step: 1, do: refuse},
		{name: "SETEX", arity: 4, flags: "write", first: 1, last: 1, step: 1, do: refuse},
		{name: "PSETEX", arity: 4, flags: "write", first: 1, last: 1, step: 1, do: refuse},
		{name: "GETEX", arity: -2, flags: "write fast", first: 1, last: 1, step: 1, do: refuse},
	} {
		commands[t.name] = &t
	}
	for i, t := range sortedCommands() {
		t.index = i
	}
}

// sortedCommands returns the table in the order of names.
func sortedCommands() []*command {
	var all []*command
	for _, name := range slices.Sorted(maps.Keys(commands)) {
		all = append(all, commands[name])
	}
	return all
}

// lookUp finds a command by its name in any case. It allocates nothing.
func lookUp(name []byte) *command {
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
	return commands[string(upper[:len(name)])]
}

// A call is a command with its arguments, which were checked as far as the table says.
type call struct {
	t    *command
	args [][]byte // without the name
}

// check finds the command of args. If it returns a text instead, that is the error to reply. Both are empty for
// a line without a word, which Redis does not answer either.
func (c *client) check(args [][]byte) (t *command, refused string) {
	if len(args) == 0 {
		return nil, ""
	}
	t = lookUp(args[0])
	switch {
	case !c.known && (t == nil || !strings.Contains(t.flags, "no_auth")):
		return nil, "NOAUTH Authentication required."
	case t == nil:
		return nil, unknownCommand(args)
	case t.arity >= 0 && len(args) != t.arity, len(args) < -t.arity, t.step == 2 && len(args)%2 == 0:
		return nil, arityText(t.name)
	}
	return t, t.keysFit(args)
}

// reservedKeys is the first of the keys that the group has for itself.
var reservedKeys = bytes.Repeat([]byte{0xff}, 32)

// keysFit returns an error text if the store does not take a key among args.
func (t *command) keysFit(args [][]byte) string {
	if t.first == 0 {
		return ""
	}
	last := t.last
	if last < 0 {
		last = len(args) - 1
	}
	for i := t.first; i <= last; i += t.step {
		switch {
		case len(args[i]) > shale.MaxKeySize:
			return fmt.Sprintf("ERR a key is longer than %d bytes", shale.MaxKeySize)
		case bytes.Compare(args[i], reservedKeys) >= 0:
			return "ERR keys that begin with 32 bytes 0xff are reserved"
		}
	}
	return ""
}

func unknownCommand(args [][]byte) string {
	var text strings.Builder
	fmt.Fprintf(&text, "ERR unknown command '%s', with args beginning with: ", printable(args[0]))
	for _, arg := range args[1:] {
		if text.Len() > 256 {
			break
		}
		fmt.Fprintf(&text, "'%s' ", printable(arg))
	}
	return text.String()
}

// printable returns at most the first 128 bytes of an argument, in a form that fits into an error's line.
func printable(arg []byte) string {
	arg = arg[:min(len(arg), 128)]
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return '?'
	}, string(arg))
}

// Replies.

func (c *client) ok()                 { c.out = redcon.AppendOK(c.out) }
func (c *client) simple(text string)  { c.out = redcon.AppendString(c.out, text) }
func (c *client) integer(n int64)     { c.out = redcon.AppendInt(c.out, n) }
func (c *client) bulk(b []byte)       { c.out = redcon.AppendBulk(c.out, b) }
func (c *client) bulkString(b string) { c.out = redcon.AppendBulkString(c.out, b) }
func (c *client) array(n int)         { c.out = redcon.AppendArray(c.out, n) }
func (c *client) syntaxError()        { c.error("ERR syntax error") }

func (c *client) error(text string) {
	c.s.counts.errors.Add(1)
	c.out = redcon.AppendError(c.out, text)
}

// null is the reply for what is not there.
func (c *client) null() {
	if c.proto3 {
		c.out = append(c.out, "_\r\n"...)
		return
	}
	c.out = redcon.AppendNull(c.out)
}

// mapOf begins a map of n names with values, which are a list in RESP2.
func (c *client) mapOf(n int) {
	if c.proto3 {
		c.out = append(strconv.AppendInt(append(c.out, '%'), int64(n), 10), "\r\n"...)
		return
	}
	c.array(2 * n)
}

func (c *client) truth(b bool) {
	if b {
		c.integer(1)
	} else {
		c.integer(0)
	}
}

func arityText(of string) string {
	return fmt.Sprintf("ERR wrong number of arguments for '%s' command", strings.ToLower(of))
}

// fail replies with an error of the group.
func (c *client) fail(err error) {
	text := c.s.config.Explain(err)
	c.error(strings.NewReplacer("\r", " ", "\n", "; ").Replace(text))
}

// parseInt reads an integer as Redis does: decimal, without signs or zeros that it would not
// write.
func parseInt(arg []byte) (int64, bool) {
	n, err := strconv.ParseInt(string(arg), 10, 64)
	return n, err == nil && strconv.FormatInt(n, 10) == string(arg)
}

// is reports whether an argument is a word, in any case.
func is(arg []byte, word string) bool { return strings.EqualFold(string(arg), word) }
